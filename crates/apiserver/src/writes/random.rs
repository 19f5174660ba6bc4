//! Uids and generated names. They look random and are the same in equal runs.

/// The characters of generated names. Without vowels, they do not form words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The maximum length of the prefix of a generated name.
const LONGEST_BASE: usize = 58;

/// Random numbers for one request. They are derived from the seed, the state and the request, so
/// there is no state to keep, restore or compare.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The numbers of a request at this version of the store.
    pub(super) const fn new(seed: u64, head: u64, request: u64) -> Self {
        Self(mixed(mixed(mixed(seed) ^ head) ^ request))
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A new uid.
    pub(super) fn uid(&mut self) -> String {
        let bytes = (u128::from(self.next()) << 64 | u128::from(self.next())).to_be_bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// A name with this prefix.
    pub(super) fn name(&mut self, base: &str) -> String {
        let mut name: String = base.chars().take(LONGEST_BASE).collect();
        let mut number = self.next();
        for _ in 0..5 {
            let index = usize::try_from(number % ALPHABET.len() as u64).unwrap_or_default();
            name.push(char::from(ALPHABET[index]));
            number /= ALPHABET.len() as u64;
        }
        name
    }
}

/// The finalizer of `SplitMix64`.
const fn mixed(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_requests_get_equal_names_and_others_get_others() {
        let uid = |seed, head, request| Random::new(seed, head, request).uid();
        assert_eq!(uid(1, 2, 3), uid(1, 2, 3));
        let all = [uid(1, 2, 3), uid(2, 2, 3), uid(1, 3, 3), uid(1, 2, 4), uid(0, 0, 0)];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(all[0].len(), 36);
        assert_eq!(all[0].as_bytes()[14], b'4');
    }

    #[test]
    fn a_generated_name_fits_into_a_label() {
        let mut random = Random::new(0, 0, 0);
        let name = random.name("x-");
        assert!(name.starts_with("x-") && name.len() == 7, "{name}");
        assert_ne!(random.name("x-"), name);
        assert_eq!(random.name(&"y".repeat(100)).len(), 63);
    }
}
