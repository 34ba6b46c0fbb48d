//! A plan is the decision of a reconcile, as data. [`act`] executes the plans of all controllers.

use futures::StreamExt;
use futures::stream::FuturesOrdered;

use crate::class::{Class, Classed as _};
use crate::fence::Fence;
use crate::resource::Resource;
use crate::write::{Verb, Write, WriteError, Writer, Written};

/// Writes of one plan that are in flight at once: each takes kilobytes, and a plan may have thousands.
const MAX_IN_FLIGHT: usize = 64;

/// Writes in steps. Those of one step are independent of each other and are sent together; the next step
/// follows when all of them succeeded. A crash between any two writes leaves a state from which the next
/// decision continues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    steps: Vec<Vec<Write>>,
}

impl Plan {
    /// Adds a step, unless it is empty.
    pub fn step(&mut self, writes: impl IntoIterator<Item = Write>) {
        let writes: Vec<Write> = writes.into_iter().collect();
        if !writes.is_empty() {
            self.steps.push(writes);
        }
    }

    /// Whether the plan has no writes.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The writes, in order.
    pub fn writes(&self) -> Vec<&Write> {
        self.steps.iter().flatten().collect()
    }
}

/// The results of a plan.
#[derive(Debug, Default)]
pub struct Acted<'p> {
    /// Writes that succeeded.
    pub done: Vec<(&'p Write, Written)>,
    /// Writes of one step that failed. The steps after it were not sent.
    pub failed: Vec<(&'p Write, WriteError)>,
}

impl Acted<'_> {
    /// The outcome of the creates of a kind: the first refusal, success, or none when nothing was created.
    pub fn created(&self, resource: &Resource) -> Option<Result<(), &WriteError>> {
        let failed = self.failed.iter();
        let mut refused = failed.filter(|(write, error)| {
            refused_create(write, error).is_some_and(|refused| refused == resource)
        });
        let is_created = |(write, _): &&(&Write, Written)| created(write) == Some(resource);
        match refused.next() {
            Some((_, error)) => Some(Err(error)),
            None => self.done.iter().find(is_created).map(|_| Ok(())),
        }
    }

    /// Adds the results of another plan.
    pub fn extend(&mut self, other: Self) {
        self.done.extend(other.done);
        self.failed.extend(other.failed);
    }
}

/// Executes a plan.
pub async fn act<'p>(plan: &'p Plan, writer: &Writer, fence: &Fence) -> Acted<'p> {
    let mut acted = Acted::default();
    for step in &plan.steps {
        let execute = |write| async move { (write, writer.execute(fence, write).await) };
        let mut waiting = step.iter();
        let mut refused = None;
        let mut sent: FuturesOrdered<_> =
            waiting.by_ref().take(MAX_IN_FLIGHT).map(execute).collect();
        while let Some((write, result)) = sent.next().await {
            match result {
                Ok(written) => acted.done.push((write, written)),
                Err(error) => {
                    refused = refused.or_else(|| refused_create(write, &error));
                    acted.failed.push((write, error));
                }
            }
            // Other creates of the same kind would be refused for the same reason.
            let is_left = |write: &&Write| refused.is_none() || created(write) != refused;
            sent.extend(waiting.by_ref().find(is_left).map(execute));
        }
        if !acted.failed.is_empty() {
            break;
        }
    }
    acted
}

/// The kind of which a create was refused, not just delayed.
fn refused_create<'w>(write: &'w Write, error: &WriteError) -> Option<&'w Resource> {
    created(write).filter(|_| matches!(error.class(), Class::Invalid | Class::Denied))
}

fn created(write: &Write) -> Option<&Resource> {
    matches!(write.verb, Verb::Create { .. }).then_some(&write.resource)
}
