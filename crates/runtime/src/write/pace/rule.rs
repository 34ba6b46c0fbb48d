//! The rules of the pace, without IO.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::LaneKey;
use crate::clock::Instant;

/// Each write has its own connection, and more of them do not make the API server faster.
pub(super) const MAX_IN_FLIGHT: f64 = 24.0;
pub(super) const MIN_IN_FLIGHT: f64 = 2.0;

/// A limit of writes in flight.
#[derive(Debug)]
pub(super) struct Bound {
    /// Fractional so that it can grow slowly.
    pub(super) places: f64,
    in_flight: usize,
    /// When the limit was last halved: refusals of writes sent earlier do not halve it again.
    slowed_at: Option<Instant>,
}

impl Bound {
    fn new() -> Self {
        Self { places: MAX_IN_FLIGHT, in_flight: 0, slowed_at: None }
    }

    fn has_room(&self) -> bool {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "2..=24")]
        let places = self.places as usize;
        self.in_flight < places
    }

    fn grow(&mut self) {
        self.places = (self.places + 1.0 / self.places).min(MAX_IN_FLIGHT);
    }

    /// Halves the limit: a write sent at `sent` was refused at `now`.
    fn slow_down(&mut self, sent: Instant, now: Instant) {
        if self.slowed_at.is_none_or(|slowed| sent > slowed) {
            self.places = (self.places / 2.0).max(MIN_IN_FLIGHT);
            self.slowed_at = Some(now);
        }
    }
}

/// The writes of one kind in one namespace.
#[derive(Debug)]
struct Lane {
    bound: Bound,
    resume_at: Instant,
    /// Writes that wait for a place of this lane, by ticket.
    line: BTreeMap<u64, Arc<Notify>>,
}

impl Lane {
    fn new() -> Self {
        Self { bound: Bound::new(), resume_at: Instant::START, line: BTreeMap::new() }
    }

    /// Wakes the first in line if there is a place; that one then wakes the next. Waking all for each place
    /// would cost quadratic time.
    fn call(&self) {
        if self.bound.has_room()
            && let Some((_, first)) = self.line.first_key_value()
        {
            first.notify_one();
        }
    }

    /// Whether the lane has no state worth keeping.
    fn is_at_rest(&self, now: Instant) -> bool {
        let recovered =
            self.bound.places >= MAX_IN_FLIGHT || now.since(self.resume_at) > LANE_MEMORY;
        self.bound.in_flight == 0 && self.line.is_empty() && now >= self.resume_at && recovered
    }
}

/// How long a lane without writes keeps its lowered limit.
const LANE_MEMORY: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq)]
pub(super) enum Admission {
    Now,
    /// Not before this time.
    At(Instant),
    /// When another write has ended.
    Later,
}

/// The limits of a process, and the writes that wait.
#[derive(Debug)]
pub(super) struct Pace {
    pub(super) all: Bound,
    lanes: BTreeMap<LaneKey, Lane>,
    /// Writes that have a place of their lane and wait for one of the process, by ticket.
    line: BTreeMap<u64, Arc<Notify>>,
    next_ticket: u64,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { all: Bound::new(), lanes: BTreeMap::new(), line: BTreeMap::new(), next_ticket: 0 }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.all.in_flight
    }

    #[cfg(test)]
    pub(super) fn known_lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Returns the next ticket.
    pub(super) fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Takes a place if there is one.
    pub(super) fn admit(&mut self, lane: &LaneKey, ticket: u64, now: Instant) -> Admission {
        self.line.remove(&ticket);
        let known = self.lanes.get_mut(lane).map(|lane| {
            lane.line.remove(&ticket);
            (lane.resume_at, lane.bound.has_room())
        });
        let (resume_at, lane_has_room) = known.unwrap_or((Instant::START, true));
        let admission = if now < resume_at {
            Admission::At(resume_at)
        } else if lane_has_room && self.all.has_room() {
            self.all.in_flight += 1;
            self.lanes.entry(lane.clone()).or_insert_with(Lane::new).bound.in_flight += 1;
            return Admission::Now;
        } else {
            Admission::Later
        };
        // The woken write may not be able to use the place.
        self.call();
        admission
    }

    /// Adds a write to the line of the missing place.
    pub(super) fn wait(&mut self, lane: &LaneKey, ticket: u64, called: Arc<Notify>) {
        match self.lanes.get_mut(lane) {
            Some(lane) if !lane.bound.has_room() => lane.line.insert(ticket, called),
            _ => self.line.insert(ticket, called),
        };
    }

    /// Removes a write from the lines.
    pub(super) fn leave(&mut self, lane: &LaneKey, ticket: u64) {
        self.line.remove(&ticket);
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.line.remove(&ticket);
            lane.call();
        }
        self.call();
    }

    pub(super) fn ended(&mut self, lane: &LaneKey, now: Instant) {
        self.all.in_flight -= 1;
        if let Some(known) = self.lanes.get_mut(lane) {
            known.bound.in_flight -= 1;
            known.call();
            if known.is_at_rest(now) {
                self.lanes.remove(lane);
            }
        }
        self.call();
    }

    pub(super) fn succeeded(&mut self, lane: &LaneKey) {
        self.all.grow();
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.bound.grow();
        }
    }

    /// Slows down after a write sent at `sent` was refused at `now` with a pause.
    pub(super) fn throttled(
        &mut self,
        lane: &LaneKey,
        sent: Instant,
        now: Instant,
        pause: Duration,
    ) {
        let mut others = self.lanes.iter().filter(|(other, _)| *other != lane);
        if others.any(|(_, other)| now < other.resume_at) {
            self.all.slow_down(sent, now);
        }
        self.lanes.retain(|other, known| other == lane || !known.is_at_rest(now));
        let known = self.lanes.entry(lane.clone()).or_insert_with(Lane::new);
        known.resume_at = known.resume_at.max(now + pause);
        known.bound.slow_down(sent, now);
    }

    /// Wakes the first in line for a place of the process, like [`Lane::call`].
    fn call(&self) {
        if self.all.has_room()
            && let Some((_, first)) = self.line.first_key_value()
        {
            first.notify_one();
        }
    }
}
