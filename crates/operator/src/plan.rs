//! A plan is what a reconcile decided, as data; carrying it out is the same for every controller.

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use grove_api::error_code::ErrorCode;
use grove_runtime::class::{Class, Classed as _};
use grove_runtime::fence::Fence;
use grove_runtime::resource::Resource;
use grove_runtime::write::{Verb, Write, WriteError, Writer, Written};

use crate::reconcile::ReconcileError;

/// Writes of one plan that are under way at once: each takes kilobytes, and a set that is deleted has
/// thousands.
const AT_ONCE: usize = 64;

/// Writes in steps: those of one step are independent of each other and go out together, the next
/// step follows when all of them succeeded. A crash between any two leaves a state from which the
/// next decision goes on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    steps: Vec<Vec<Write>>,
}

impl Plan {
    /// Adds a step; an empty one is left out.
    pub(crate) fn step(&mut self, writes: impl IntoIterator<Item = Write>) {
        let writes: Vec<Write> = writes.into_iter().collect();
        if !writes.is_empty() {
            self.steps.push(writes);
        }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The writes, for tests.
    #[cfg(test)]
    pub(crate) fn writes(&self) -> Vec<&Write> {
        self.steps.iter().flatten().collect()
    }
}

/// What came of a plan.
#[derive(Debug, Default)]
pub(crate) struct Acted<'p> {
    pub(crate) done: Vec<(&'p Write, Written)>,
    /// Writes of one step that failed; the steps after it were not tried.
    pub(crate) failed: Vec<(&'p Write, WriteError)>,
}

impl Acted<'_> {
    /// Whether the API server refused to create an object of a kind, or created one.
    pub(crate) fn created(&self, resource: &Resource) -> Option<Result<(), &WriteError>> {
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

    /// Adds what came of another plan.
    pub(crate) fn extend(&mut self, other: Self) {
        self.done.extend(other.done);
        self.failed.extend(other.failed);
    }

    /// The first failure, as the error of a reconcile that has failed so often before.
    pub(crate) fn error(
        &self,
        code: impl Fn(&Write) -> ErrorCode,
        failures: u32,
    ) -> Option<ReconcileError> {
        let (write, error) = self.failed.first()?;
        Some(if error.is_already_exists() {
            ReconcileError::name_taken(code(write), error, failures)
        } else {
            ReconcileError::refused(code(write), error)
        })
    }
}

/// Carries out a plan.
pub(crate) async fn act<'p>(plan: &'p Plan, writer: &Writer, fence: &Fence) -> Acted<'p> {
    let mut acted = Acted::default();
    for step in &plan.steps {
        let execute = |write| async move { (write, writer.execute(fence, write).await) };
        let mut waiting = step.iter();
        let mut refused = None;
        let mut sent: FuturesOrdered<_> = waiting.by_ref().take(AT_ONCE).map(execute).collect();
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
