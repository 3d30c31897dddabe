//! The application's configuration: a repository of its own, and what environments should have of it.

use std::collections::BTreeSet;

use kardinal_testkit::shop::kustomization;

/// The repository that configuration comes from.
pub(crate) const CONFIG: &str = "settings";
/// How many settings there are. Each is made by the commit of one release.
const COUNT: u64 = 4;
/// The version that environments begin with.
pub(crate) const FIRST: &str = "1.28.0";

/// Which of the settings are made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings(BTreeSet<u64>);

impl FromIterator<u64> for Settings {
    fn from_iter<T: IntoIterator<Item = u64>>(made: T) -> Settings {
        Settings(made.into_iter().collect())
    }
}

impl Settings {
    /// The file that holds them.
    pub(crate) const FILE: &'static str = "settings.yaml";

    /// Makes one more.
    pub(crate) fn make(&mut self, number: u64) {
        self.0.insert(number);
    }

    /// Makes and unmakes what differs between two states of the repository.
    pub(crate) fn turn(&mut self, from: &Settings, to: &Settings) {
        turn(&mut self.0, from, to);
    }

    /// The file. The settings are so far from each other that commits of different ones never touch the same lines.
    pub(crate) fn text(&self) -> String {
        let value = |number: u64| if self.0.contains(&number) { "made" } else { "unmade" };
        let setting = |number: u64| {
            format!("\n\n# The setting number {number}.\n\n\nsetting-{number}: {}\n", value(number))
        };
        std::iter::once("# What the application is to know.\n".to_owned())
            .chain((1..=COUNT).map(setting))
            .collect()
    }
}

/// The file that the commit of a release adds, and what is in it.
pub(crate) fn flag(number: u64) -> (String, String) {
    (format!("flags/{number}.yaml"), format!("flag: {number}\n"))
}

/// The files of an environment as promotions should have left them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) version: String,
    pub(crate) settings: Settings,
    pub(crate) flags: BTreeSet<u64>,
}

/// Takes out of a set what was only there, and puts in what is only here.
fn turn(set: &mut BTreeSet<u64>, from: &Settings, to: &Settings) {
    set.retain(|number| !from.0.contains(number) || to.0.contains(number));
    set.extend(to.0.difference(&from.0));
}

impl Files {
    /// Brings in what the repository differs by; every commit makes one setting and adds one flag.
    pub(crate) fn turn(&mut self, from: &Settings, to: &Settings, overlaid: bool) {
        turn(&mut self.flags, from, to);
        match overlaid {
            true => self.settings = to.clone(),
            false => self.settings.turn(from, to),
        }
    }

    /// What every environment begins with.
    pub(crate) fn first() -> Files {
        Files { version: FIRST.to_owned(), settings: Settings::default(), flags: BTreeSet::new() }
    }

    /// The files, by their names in the environment's directory.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        let known = [
            ("kustomization.yaml".to_owned(), kustomization(&self.version)),
            (Settings::FILE.to_owned(), self.settings.text()),
        ];
        known.into_iter().chain(self.flags.iter().map(|number| flag(*number))).collect()
    }
}
