//! Optional kinds: why a cluster does not serve one, in words for a condition, and waking when that changes.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::process::Stage;
use crate::resource::Resource;
use crate::store::{Presence, PresenceChanges, Store};
use crate::view::View;

/// Reasons of conditions.
const API_NOT_SERVED: &str = "ApiNotServed";
const API_FORBIDDEN: &str = "ApiForbidden";
const API_UNKNOWN: &str = "ApiUnknown";

/// How long a kind may be unknown before that is reported: an API server that restarts or is upgraded
/// may refuse a kind for moments.
const UNKNOWN_DELAY: Duration = Duration::from_secs(3);

/// Why objects of a kind cannot be created, as reason and message of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// Reason of the condition.
    pub reason: &'static str,
    /// Message of the condition, with what to do.
    pub message: String,
}

/// Why a kind cannot be seen; `advice` is what to do where it is not served.
pub fn absence<T: View>(store: &Store<T>, advice: &str) -> Option<Absence> {
    let code = store.trouble().borrow().as_ref().and_then(|trouble| trouble.code);
    explain(store.resource(), store.presence(), code, advice)
}

fn explain(
    resource: &Resource,
    presence: Presence,
    code: Option<u16>,
    advice: &str,
) -> Option<Absence> {
    let kind = format!("{} of {}", resource.plural, resource.api_version());
    let (reason, message) = match presence {
        Presence::Served => return None,
        Presence::Absent => {
            (API_NOT_SERVED, format!("the API server does not serve {kind}: {advice}"))
        }
        Presence::Unknown if code == Some(403) => (
            API_FORBIDDEN,
            format!(
                "the operator may not list and watch {kind}: give it the role that Grove is installed \
                 with (deploy/operator and deploy/resources)"
            ),
        ),
        Presence::Unknown => (
            API_UNKNOWN,
            format!(
                "the API server refuses {kind}, and discovery does not confirm that the kind is gone: \
                 what needs it waits until that is known. Check the API server"
            ),
        ),
    };
    Some(Absence { reason, message })
}

/// Calls `changed` when the presence of a kind changes, and when it is listed for the first time.
pub fn follow<T: View>(
    store: &Store<T>,
    clock: &Clock,
    stage: &Stage,
    changed: Arc<impl Fn() + Send + Sync + 'static>,
) {
    let first = changed.clone();
    store.when_listed(move || first());
    let (presence, clock) = (store.presence_changes(), clock.clone());
    stage.spawn(|shutdown| async move {
        let follow = std::pin::pin!(follow_presence(presence, clock, || changed()));
        futures::future::select(std::pin::pin!(shutdown.requested()), follow).await;
    });
}

/// Calls `changed` after each change. A kind that is unknown for moments only is reported when it is
/// known again: what was held back meanwhile has to go on.
async fn follow_presence(mut presence: PresenceChanges, clock: Clock, changed: impl Fn()) {
    if *presence.borrow_and_update() != Presence::Served {
        changed();
    }
    while presence.changed().await.is_ok() {
        let known = presence.wait_for(|presence| *presence != Presence::Unknown);
        // Ended or not: what counts is the presence by now.
        let _ = clock.timeout(UNKNOWN_DELAY, known).await;
        presence.mark_unchanged();
        changed();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_is_missing_is_said_with_what_to_do() {
        let claims =
            Resource::namespaced("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim");
        let of = |presence, code| explain(&claims, presence, Some(code), "upgrade");
        assert_eq!(of(Presence::Served, 403), None);
        let cases = [
            (
                Presence::Absent,
                404,
                "ApiNotServed",
                "the API server does not serve resourceclaims of resource.k8s.io/v1: upgrade",
            ),
            (Presence::Absent, 403, "ApiNotServed", "does not serve"),
            (Presence::Unknown, 403, "ApiForbidden", "give it the role"),
            (Presence::Unknown, 404, "ApiUnknown", "the API server refuses resourceclaims"),
            (Presence::Unknown, 500, "ApiUnknown", "the API server refuses resourceclaims"),
        ];
        for (presence, code, reason, says) in cases {
            let absence = of(presence, code).unwrap();
            assert_eq!(absence.reason, reason);
            assert!(absence.message.contains(says), "{}", absence.message);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_of_the_presence_wake_those_that_wait_and_moments_wake_once() {
        let clock = Clock::at(jiff::Timestamp::UNIX_EPOCH);
        let (sender, receiver) = tokio::sync::watch::channel(Presence::Served);
        let calls = Cell::new(0);
        let follow = follow_presence(receiver, clock.clone(), || calls.set(calls.get() + 1));
        let script = async {
            let mut seen = Vec::new();
            let moves = [
                (Presence::Unknown, Duration::from_secs(1)),
                (Presence::Served, Duration::from_secs(1)),
                (Presence::Unknown, Duration::from_secs(60)),
                (Presence::Absent, Duration::from_secs(1)),
                (Presence::Served, Duration::from_secs(1)),
            ];
            for (presence, lasts) in moves {
                sender.send_replace(presence);
                clock.sleep(lasts).await;
                seen.push(calls.get());
            }
            seen
        };
        let seen = tokio::select! {
            biased;
            () = follow => unreachable!("the sender lives"),
            seen = script => seen,
        };
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }
}
