//! A plan is what a reconcile decided, as data; carrying it out is the same for every controller.

use futures::future::join_all;
use grove_runtime::fence::Fence;
use grove_runtime::write::{Write, WriteError, Writer};

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

/// Carries out a plan. Of several failures in one step the first is returned, with its write.
pub(crate) async fn act<'p>(
    plan: &'p Plan,
    writer: &Writer,
    fence: &Fence,
) -> Result<(), (&'p Write, WriteError)> {
    for step in &plan.steps {
        let execute = |write| async move { (write, writer.execute(fence, write).await) };
        for (write, result) in join_all(step.iter().map(execute)).await {
            result.map_err(|error| (write, error))?;
        }
    }
    Ok(())
}
