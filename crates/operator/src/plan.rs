//! A plan is what a reconcile decided, as data; carrying it out is the same for every controller.

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use grove_api::error_code::ErrorCode;
use grove_runtime::fence::Fence;
use grove_runtime::write::{Write, WriteError, Writer, Written};

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
            ReconcileError::failed(code(write), error)
        })
    }
}

/// Carries out a plan.
pub(crate) async fn act<'p>(plan: &'p Plan, writer: &Writer, fence: &Fence) -> Acted<'p> {
    let mut acted = Acted::default();
    for step in &plan.steps {
        let execute = |write| async move { (write, writer.execute(fence, write).await) };
        let mut waiting = step.iter();
        let mut sent: FuturesOrdered<_> = waiting.by_ref().take(AT_ONCE).map(execute).collect();
        while let Some((write, result)) = sent.next().await {
            match result {
                Ok(written) => acted.done.push((write, written)),
                Err(error) => acted.failed.push((write, error)),
            }
            sent.extend(waiting.next().map(execute));
        }
        if !acted.failed.is_empty() {
            break;
        }
    }
    acted
}
