//! Limits the log lines about unanswered requests.

use std::time::Duration;

use tokio::time::Instant;

/// The greatest number of lines in a window.
const AT_MOST: u32 = 16;
/// The length of a window.
pub(super) const WINDOW: Duration = Duration::from_secs(10);

/// The number of lines in the present window.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    began: Option<Instant>,
    lines: u32,
}

/// Whether to log a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lines {
    /// Yes.
    Another,
    /// A line that says that no more follow.
    Last,
    /// No.
    Full,
}

impl Unanswered {
    /// Counts one more unanswered request.
    pub fn one_more(&mut self, now: Instant) -> Lines {
        if self.began.is_none_or(|began| now - began >= WINDOW) {
            (self.began, self.lines) = (Some(now), 0);
        }
        self.lines = self.lines.saturating_add(1);
        match self.lines {
            lines if lines <= AT_MOST => Lines::Another,
            lines if lines == AT_MOST + 1 => Lines::Last,
            _ => Lines::Full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_window_has_few_lines_and_one_that_says_so() {
        let mut unanswered = Unanswered::default();
        for _ in 0..2 {
            let mut lines = |_| unanswered.one_more(Instant::now());
            let all: Vec<_> = (0..1000).map(&mut lines).collect();
            let count = |which| all.iter().filter(|lines| **lines == which).count();
            assert_eq!((count(Lines::Another), count(Lines::Last)), (16, 1));
            tokio::time::advance(WINDOW).await;
        }
    }
}
