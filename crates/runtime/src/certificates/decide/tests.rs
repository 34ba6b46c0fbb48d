use std::rc::Rc;

use super::super::authority::AuthorityName;
use super::super::contents::{Contents, Data};
use super::super::managed::Since;
use super::*;
use crate::clock::Instant;
use crate::rng::Rng;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

fn ca(name: &str) -> CaId {
    CaId(name.as_bytes().into())
}

/// A validity that started in the past and ends after `left`.
fn left(left: Duration) -> Validity {
    Validity { not_before: now() - 1000 * DAY, not_after: now() + left }
}

fn leaf(issuer: &str, remaining: Duration) -> LeafFacts {
    LeafFacts { validity: left(remaining), issuer: Some(ca(issuer)), names_complete: true }
}

fn trusted<const N: usize>(cas: [(&str, Duration); N]) -> Vec<(CaId, Validity)> {
    cas.map(|(name, remaining)| (ca(name), left(remaining))).into()
}

/// A leaf of A with A as its signer, nothing due.
fn healthy() -> Facts {
    Facts {
        leaf: Some(leaf("A", 20 * HOUR)),
        trusted: trusted([("A", 300 * DAY)]),
        signer: Some(ca("A")),
        next: None,
    }
}

/// B is announced beside A, which has 100 days left.
fn announced() -> Facts {
    Facts {
        trusted: trusted([("A", 100 * DAY), ("B", 365 * DAY)]),
        next: Some(ca("B")),
        ..healthy()
    }
}

/// B signs, A is still trusted.
fn switched() -> Facts {
    Facts {
        leaf: Some(leaf("B", 20 * HOUR)),
        trusted: trusted([("B", 365 * DAY), ("A", 100 * DAY)]),
        signer: Some(ca("B")),
        next: None,
    }
}

fn published(duration: Duration) -> Ages {
    Ages { published: Some(duration), ..Ages::default() }
}

#[test]
fn each_state_of_the_secret_has_its_next_step() {
    let day_old_leaf = Ages { leaf: 12 * HOUR, ..Ages::default() };
    let settled = Ages { signer: DAY, ..Ages::default() };
    let without_names = LeafFacts { names_complete: false, ..leaf("A", 20 * HOUR) };
    let unsigned = LeafFacts { issuer: None, ..leaf("A", 20 * HOUR) };
    let future = Validity { not_before: now() + HOUR, not_after: now() + DAY };
    let from_the_future = LeafFacts { validity: future, ..leaf("A", DAY) };
    let expiring_ca = trusted([("A", 2 * HOUR), ("B", 365 * DAY)]);
    let expired_ca = trusted([("A", Duration::ZERO), ("B", 365 * DAY)]);
    let fresh = Ages::default();
    let cases = [
        ("the secret is empty", Facts::default(), fresh, Step::Found),
        ("nothing is due", healthy(), published(HOUR), Step::Keep),
        (
            "the leaf is at half its validity",
            Facts { leaf: Some(leaf("A", 12 * HOUR)), ..healthy() },
            fresh,
            Step::IssueLeaf,
        ),
        (
            "the leaf has expired",
            Facts { leaf: Some(leaf("A", Duration::ZERO)), ..healthy() },
            fresh,
            Step::IssueLeaf,
        ),
        ("the leaf cannot be served", Facts { leaf: None, ..healthy() }, fresh, Step::IssueLeaf),
        (
            "the leaf lacks a name",
            Facts { leaf: Some(without_names), ..healthy() },
            fresh,
            Step::IssueLeaf,
        ),
        (
            "the signer of the leaf is unknown",
            Facts { leaf: Some(unsigned), ..healthy() },
            fresh,
            Step::IssueLeaf,
        ),
        (
            "the wall clock was set back",
            Facts { leaf: Some(from_the_future), ..healthy() },
            fresh,
            Step::IssueLeaf,
        ),
        ("the wall clock stands still", healthy(), day_old_leaf, Step::IssueLeaf),
        (
            "the CA is due",
            Facts { trusted: trusted([("A", 125 * DAY)]), ..healthy() },
            fresh,
            Step::Announce,
        ),
        ("the CA's key is lost", Facts { signer: None, ..healthy() }, fresh, Step::Announce),
        ("B is announced but not published", announced(), fresh, Step::Keep),
        ("B is not published for long enough", announced(), published(9 * MINUTE), Step::Keep),
        ("B is published for long enough", announced(), published(10 * MINUTE), Step::Switch),
        (
            "the leaf is renewed by A while B waits",
            Facts { leaf: Some(leaf("A", 11 * HOUR)), ..announced() },
            fresh,
            Step::IssueLeaf,
        ),
        (
            "a leaf that ends with its CA is not issued over and over",
            Facts { leaf: Some(leaf("A", 2 * HOUR)), trusted: expiring_ca, ..announced() },
            fresh,
            Step::Keep,
        ),
        (
            "A has expired before B was published",
            Facts { trusted: expired_ca, ..announced() },
            fresh,
            Step::Switch,
        ),
        (
            "the keys are lost while B waits",
            Facts { signer: None, ..announced() },
            fresh,
            Step::Keep,
        ),
        ("A is trusted for a while after the switch", switched(), published(HOUR), Step::Keep),
        ("A retires", switched(), settled, Step::Retire(vec![ca("A")])),
        (
            "an expired A retires at once",
            Facts { trusted: trusted([("B", 365 * DAY), ("A", Duration::ZERO)]), ..switched() },
            fresh,
            Step::Retire(vec![ca("A")]),
        ),
        (
            "a leaf of A beside the signer B is replaced",
            Facts { leaf: Some(leaf("A", 20 * HOUR)), ..switched() },
            settled,
            Step::IssueLeaf,
        ),
    ];
    for (name, facts, ages, expected) in cases {
        assert_eq!(decide(&facts, ages, now(), &Schedule::default()), expected, "{name}");
    }
}

/// A value that observers see with a delay.
struct Timeline<T>(Vec<(Duration, T)>);

impl<T: Clone + PartialEq> Timeline<T> {
    fn push(&mut self, at: Duration, value: T) {
        if self.0.last().is_none_or(|(_, last)| *last != value) {
            self.0.push((at, value));
        }
    }

    fn observed(&self, at: Duration, lag: Duration) -> Option<&T> {
        let point = at.saturating_sub(lag);
        self.0.iter().rev().find(|(time, _)| *time <= point).map(|(_, value)| value)
    }
}

/// A leader, a slow follower, a fast and a slow API server, two webhook configurations, in virtual time.
struct World {
    at: Duration,
    /// How far the wall clock is ahead of the monotonic one, because the machine was suspended.
    slept: Duration,
    rng: Rng,
    schedule: Schedule,
    names: Vec<String>,
    stored: Option<Rc<Contents>>,
    webhooks: [Bundle; 2],
    bundles: Timeline<[Bundle; 2]>,
    leaves: Timeline<(CaId, Validity)>,
    memory: Memory,
    steps: Vec<Step>,
}

type Bundle = Rc<Vec<CaId>>;

fn bundle(contents: &Contents) -> Vec<CaId> {
    contents.facts.trusted.iter().map(|(id, _)| id.clone()).collect()
}

#[derive(Default)]
struct Memory {
    contents: Rc<Contents>,
    leaf: Since<String>,
    signer: Since<CaId>,
    published: Since<Vec<CaId>>,
}

const TICK: Duration = Duration::from_secs(300);

impl World {
    fn new(seed: u64) -> Self {
        let schedule = Schedule {
            ca_valid_for: 60 * DAY,
            ca_renew_after: 40 * DAY,
            overlap: 4 * TICK,
            ..Schedule::default()
        };
        Self {
            at: Duration::ZERO,
            slept: Duration::ZERO,
            rng: Rng::seeded(seed),
            schedule,
            names: vec!["webhook.ns.svc".to_owned()],
            stored: None,
            webhooks: Default::default(),
            bundles: Timeline(Vec::new()),
            leaves: Timeline(Vec::new()),
            memory: Memory::default(),
            steps: Vec::new(),
        }
    }

    fn one_in(&self, n: u64) -> bool {
        self.rng.next_u64().is_multiple_of(n)
    }

    fn wall(&self) -> Timestamp {
        now() + self.at + self.slept
    }

    /// One round of the leader; writes fail now and then.
    fn round(&mut self) {
        if let Some(stored) = &self.stored {
            self.memory.contents = stored.clone();
        }
        let contents = self.memory.contents.clone();
        let bundle = bundle(&contents);
        if self.stored.is_some() {
            for index in 0..2 {
                if *self.webhooks[index] != bundle && !self.one_in(4) {
                    self.webhooks[index] = Rc::new(bundle.clone());
                }
            }
        }
        let ages = self.ages(&contents, bundle);
        let without_keys;
        let base = if self.stored.is_some() {
            &*contents
        } else {
            without_keys = contents.without_keys();
            &without_keys
        };
        let step = decide(&base.facts, ages, self.wall(), &self.schedule);
        if step == Step::Keep || (self.stored.is_some() && self.one_in(4)) {
            return;
        }
        let who = AuthorityName { common_name: "CA".into(), organization: "Org".into() };
        let new = base.after(&step, &who, &self.names, &self.schedule, self.wall()).unwrap();
        let data = new.data().into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        self.stored = Some(Rc::new(Contents::read(&data.collect::<Data>(), &self.names)));
        self.steps.push(step);
    }

    fn ages(&mut self, contents: &Contents, bundle: Vec<CaId>) -> Ages {
        let time = Instant::START + self.at;
        let carried = self.webhooks.iter().all(|webhook| **webhook == bundle);
        let leaf = contents.leaf_identity().map(str::to_owned);
        let signer = contents.facts.signer.clone();
        Ages {
            leaf: self.memory.leaf.update(leaf, time).unwrap_or_default(),
            published: self.memory.published.update(carried.then_some(bundle), time),
            signer: self.memory.signer.update(signer, time).unwrap_or_default(),
        }
    }

    fn publish(&mut self) {
        self.bundles.push(self.at, self.webhooks.clone());
        let leaf = self.stored.as_ref().and_then(|contents| contents.facts.leaf.as_ref());
        if let Some(leaf) = leaf {
            self.leaves.push(self.at, (leaf.issuer.clone().unwrap(), leaf.validity));
        }
    }

    /// Asserts that every API server trusts the certificate of every replica.
    fn check(&self) {
        let slowest = self.schedule.overlap.saturating_sub(TICK);
        for bundles in [Duration::ZERO, slowest].map(|lag| self.bundles.observed(self.at, lag)) {
            for leaf in [Duration::ZERO, HOUR].map(|lag| self.leaves.observed(self.at, lag)) {
                let (Some(bundles), Some((issuer, validity))) = (bundles, leaf) else { continue };
                assert!(validity.covers(self.wall()), "a replica shows an expired leaf");
                for bundle in bundles {
                    let known = bundle.contains(issuer);
                    assert!(known, "after {:?}: {issuer:?} is not trusted", self.at);
                }
            }
        }
    }
}

/// Runs a world with random failures for 200 days and checks trust all the time.
fn survive(seed: u64) -> World {
    let mut world = World::new(seed);
    // Before the first bundle has arrived everywhere, no certificate is trusted.
    while world.at < HOUR {
        world.round();
        world.at += TICK;
    }
    while world.at < 200 * DAY {
        if world.one_in(2000) {
            world.memory = Memory::default();
        } else if world.one_in(4000) {
            world.stored = None;
        } else if world.one_in(3000) {
            world.slept += 5 * HOUR;
        }
        world.round();
        world.publish();
        world.check();
        world.at += TICK;
    }
    world
}

#[test]
fn every_certificate_is_trusted_through_restarts_deletions_suspends_and_failed_writes() {
    for seed in 0..2 {
        let world = survive(seed);
        let count = |step: fn(&Step) -> bool| world.steps.iter().filter(|s| step(s)).count();
        assert_eq!(count(|step| *step == Step::Found), 1, "seed {seed}");
        assert!(count(|step| *step == Step::Switch) >= 5, "seed {seed}: {:?}", world.steps);
        assert!(count(|step| *step == Step::IssueLeaf) >= 350, "seed {seed}");
        assert!(count(|step| matches!(step, Step::Retire(_))) >= 3, "seed {seed}");
        assert!(world.stored.unwrap().facts.trusted.len() <= 4, "seed {seed}");
    }
}

#[test]
fn a_year_without_failures_writes_two_renewals_a_day() {
    let mut world = World::new(1);
    world.schedule = Schedule { overlap: 4 * TICK, ..Schedule::default() };
    let mut writes = 0;
    while world.at < 365 * DAY {
        // Without failures: retry until the write succeeds, check the wall clock every half hour.
        world.round();
        writes += usize::from(world.steps.len() != writes);
        world.at += 6 * TICK;
    }
    let others = world.steps.iter().filter(|step| **step != Step::IssueLeaf).count();
    assert!((700..740).contains(&(writes - others)), "{writes}");
    assert_eq!(others, 4, "found, announced, switched, retired");
}
