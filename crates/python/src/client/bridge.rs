//! From tokio to asyncio: all clients of a process have their tasks on one thread, which hands results to the event
//! loops that wait for them.

use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// The thread of all clients.
struct Worker {
    handle: Handle,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
    /// A child after `fork` has no such thread.
    process: u32,
}

static WORKER: Mutex<Option<Worker>> = Mutex::new(None);

impl Worker {
    fn start() -> std::io::Result<Worker> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, (stop, stopped)) = (runtime.handle().clone(), oneshot::channel());
        let work = move || {
            // An error means that nobody can stop this any more.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("byname".to_owned()).spawn(work)?;
        Ok(Worker { handle, stop, thread, process: std::process::id() })
    }
}

fn handle() -> PyResult<Handle> {
    let mut worker = WORKER.lock().unwrap_or_else(PoisonError::into_inner);
    match &*worker {
        Some(running) if running.process == std::process::id() => Ok(running.handle.clone()),
        Some(_) => Err(PyRuntimeError::new_err(
            "this process was forked from one with clients, and cannot have its own; \
             start processes by `spawn` (multiprocessing.set_start_method)",
        )),
        None => Ok(worker.insert(Worker::start()?).handle.clone()),
    }
}

/// Ends the thread of clients, as the interpreter ends: it must not touch Python afterwards.
#[pyfunction]
pub fn shut_down(py: Python<'_>) {
    let worker = WORKER.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(worker) = worker.filter(|worker| worker.process == std::process::id()) else { return };
    // The thread may be waiting for the interpreter.
    py.detach(|| {
        let _ = worker.stop.send(());
        let _ = worker.thread.join();
    });
}

/// An asyncio future of the running loop, which gets what `work` brings. If it is cancelled, the work ends.
pub fn future<'py, T>(
    py: Python<'py>,
    work: impl Future<Output = PyResult<T>> + Send + 'static,
) -> PyResult<Bound<'py, PyAny>>
where
    T: for<'a> IntoPyObject<'a> + Send + 'static,
{
    let event_loop = py.import("asyncio")?.call_method0("get_running_loop")?;
    let future = event_loop.call_method0("create_future")?;
    let waiting = Waiting(Some((event_loop.unbind(), future.clone().unbind())));
    let task = handle()?.spawn(async move {
        let result = work.await;
        waiting.deliver(|py| result?.into_py_any(py));
    });
    future.call_method1("add_done_callback", (Abort(task.abort_handle()),))?;
    Ok(future)
}

/// A future, and the loop that it belongs to.
struct Waiting(Option<(Py<PyAny>, Py<PyAny>)>);

impl Waiting {
    fn deliver(mut self, result: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>>) {
        self.settle(result);
    }

    fn settle(&mut self, result: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>>) {
        let Some((event_loop, future)) = self.0.take() else { return };
        // As the interpreter ends, nobody waits any more. Nor does anybody if the loop is closed, which is an error here.
        let _ = Python::try_attach(|py| {
            let (method, outcome) = match result(py) {
                Ok(value) => ("set_result", value),
                Err(error) => ("set_exception", error.into_value(py).into_any()),
            };
            let settle = wrap_pyfunction!(settle, py)?;
            event_loop.call_method1(py, "call_soon_threadsafe", (settle, future, method, outcome))
        });
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Work that was aborted was cancelled by its future.
        if std::thread::panicking() {
            self.settle(|_| Err(PyRuntimeError::new_err("the client failed inside; please report this")));
        }
    }
}

/// Settles a future that is not cancelled. Runs in the loop's thread.
#[pyfunction]
fn settle(future: &Bound<'_, PyAny>, method: &str, outcome: Bound<'_, PyAny>) -> PyResult<()> {
    if !future.call_method0("done")?.is_truthy()? {
        future.call_method1(method, (outcome,))?;
    }
    Ok(())
}

/// Ends the work of a future that is done. This has an effect only if it was cancelled.
#[pyclass(frozen)]
struct Abort(AbortHandle);

#[pymethods]
impl Abort {
    fn __call__(&self, _future: &Bound<'_, PyAny>) {
        self.0.abort();
    }
}
