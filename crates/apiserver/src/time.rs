//! Times in the format of Kubernetes: UTC, in seconds.

use std::time::{Duration, SystemTime};

const DAY: u64 = 86_400;

/// `2026-01-01T00:00:00Z`. Times before 1970 become 1970.
#[must_use]
pub fn timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = date(seconds / DAY);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Parses such a time; `None` if it is malformed.
#[must_use]
pub fn parse(text: &str) -> Option<SystemTime> {
    let (day, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let mut day = day.splitn(3, '-').map(str::parse::<u64>);
    let mut clock = clock.splitn(3, ':').map(|part| part.split('.').next().unwrap_or(part).parse::<u64>());
    let (year, month, date) = (day.next()?.ok()?, day.next()?.ok()?, day.next()?.ok()?);
    let (hour, minute, second) = (clock.next()?.ok()?, clock.next()?.ok()?, clock.next()?.ok()?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let clock = hour * 3600 + minute * 60 + second;
    let seconds = days(year, month, date)?.checked_mul(DAY)?.checked_add(clock)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// The date of a day since 1970. It counts years from March, so that leap days come last.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// The day since 1970 of a date; `None` if it is invalid or too far away.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted_month = (month + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era.checked_mul(146_097)?.checked_add(day_of_era)?.checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_600, "2026-01-01T00:00:00Z"),
            (1_772_323_199, "2026-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(timestamp(time), text);
            assert_eq!(parse(text), Some(time), "{text}");
        }
        assert_eq!(parse("yesterday"), None);
    }

    #[test]
    fn invalid_times_are_rejected() {
        let most = u64::MAX;
        for text in [
            "2026-00-01T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-32T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "0000-01-01T00:00:00Z",
            &format!("{most}-01-01T00:00:00Z"),
            &format!("2026-{most}-01T00:00:00Z"),
            &format!("2026-01-{most}T00:00:00Z"),
            &format!("2026-01-01T{most}:00:00Z"),
            &format!("2026-01-01T00:00:{most}Z"),
            "999999999999-01-01T00:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        // The grace period of a Pod may reach beyond the year 9999.
        let late = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000_000);
        assert_eq!(parse(&timestamp(late)), Some(late));
    }
}
