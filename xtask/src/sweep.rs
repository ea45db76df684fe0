//! Runs a sweep in parts with each job file of the simulator, and compares it with an undivided
//! run.
//!
//! With GNU parallel and Slurm, one worker is killed in the middle; then the same command is
//! repeated, and the killed part has to continue where it ended. In the end, what `sim merge`
//! prints and each file that it writes must be those of the undivided run, to the byte.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use crate::publish::skip;
use crate::run::{cargo, has, output, root, succeed};

/// Number of parts.
const SHARDS: usize = 4;
/// Results in the file of a part when its worker is killed.
const RESULTS: usize = 10;
/// Limit for each wait: far more than any takes, even with the lowest priority in CI.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) fn run() -> Result<(), String> {
    let sweep = Sweep::new()?;
    sweep.with_kubernetes()?;
    if has("parallel") {
        sweep.with_parallel()?;
    } else {
        skip("sweep with GNU parallel", "parallel", "apt-get install parallel")?;
    }
    if ["munged", "slurmctld", "slurmd", "sbatch"].into_iter().all(is_in_path) {
        sweep.with_slurm()
    } else {
        skip("sweep with Slurm", "slurm", "apt-get install slurm-wlm munge")
    }
}

/// Builds the simulator's program as the tests do, so that CI builds nothing twice.
pub(crate) fn simulator() -> Result<PathBuf, String> {
    let words = ["build", "--profile", "full", "--workspace", "--bin", "sim"];
    succeed("the simulator", cargo(".").args(words))?;
    let program = root().join("target/full/sim");
    // As `/proc` names it.
    fs::canonicalize(&program).map_err(|error| at(&program, &error))
}

/// Creates an empty folder below `target`.
pub(crate) fn empty_folder(name: &str) -> Result<PathBuf, String> {
    let folder = root().join("target").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| at(&folder, &error))?;
    }
    fs::create_dir_all(&folder).map_err(|error| at(&folder, &error))?;
    Ok(folder)
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Repeats `attempt` until it returns a value.
fn wait_for<T>(what: &str, attempt: impl Fn() -> Result<Option<T>, String>) -> Result<T, String> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Some(found) = attempt()? {
            return Ok(found);
        }
        sleep(Duration::from_millis(5));
    }
    Err(format!("{what}: nothing within {} s", PATIENCE.as_secs()))
}

/// Output of a command: the printed text, and the written files by name.
type Written = BTreeMap<String, Vec<u8>>;

/// The example sweep and its undivided run.
struct Sweep {
    sim: PathBuf,
    jobs: PathBuf,
    folder: PathBuf,
    whole: Written,
}

/// A part whose worker was killed.
struct Killed {
    file: PathBuf,
    /// Complete lines of the file at that time.
    lines: String,
}

impl Sweep {
    fn new() -> Result<Self, String> {
        let sim = simulator()?;
        let folder = empty_folder("sweep")?;
        let jobs = root().join("crates/sim/jobs");
        let mut sweep = Self { sim, jobs, folder, whole: Written::new() };
        let mut whole = sweep.command(&sweep.sim);
        whole.arg("run").arg(sweep.file());
        sweep.whole = sweep.written("undivided", &mut whole)?;
        Ok(sweep)
    }

    fn file(&self) -> PathBuf {
        self.jobs.join("sweep.toml")
    }

    /// Returns a command that finds the simulator as `sim`.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = self.sim.parent().map(Path::to_path_buf);
        let path = std::env::join_paths(own.into_iter().chain(std::env::split_paths(&path)));
        let mut command = Command::new(program);
        command.current_dir(&self.folder).env("PATH", path.expect("folders came from PATH"));
        command
    }

    /// Runs a command of the simulator that writes files to `--out`.
    fn written(&self, name: &str, command: &mut Command) -> Result<Written, String> {
        let out = self.folder.join(format!("{name}-out"));
        let printed = output(name, command.arg("--out").arg(&out))?;
        let mut written = Written::from([("the report".to_owned(), printed.into_bytes())]);
        for entry in fs::read_dir(&out).map_err(|error| at(&out, &error))? {
            let path = entry.map_err(|error| at(&out, &error))?.path();
            let contents = fs::read(&path).map_err(|error| at(&path, &error))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            written.insert(name, contents);
        }
        Ok(written)
    }

    /// Merges the runs in the folder `way` and compares the result with the undivided run.
    fn compare(&self, way: &str) -> Result<(), String> {
        let mut merge = self.command(&self.sim);
        let merged = self.written(way, merge.arg("merge").arg(self.folder.join(way)))?;
        let names = || self.whole.keys().chain(merged.keys());
        if let Some(name) = names().find(|name| self.whole.get(*name) != merged.get(*name)) {
            return Err(format!("sweep with {way}: {name} differs from that of the undivided run"));
        }
        let bytes: usize = merged.values().map(Vec::len).sum();
        eprintln!(
            "xtask: sweep with {way}: report and {} files agree, {bytes} bytes",
            merged.len() - 1
        );
        Ok(())
    }

    /// Waits until a worker has some results in the folder `way`, and kills it.
    fn kill_a_worker(&self, way: &str) -> Result<Killed, String> {
        let runs = self.folder.join(way);
        wait_for("a worker to kill", || {
            let Some((process, file)) = self.worker(&runs) else { return Ok(None) };
            let read = || fs::read_to_string(&file).unwrap_or_default();
            if read().lines().count() <= RESULTS {
                return Ok(None);
            }
            let process = process.to_string();
            succeed(
                &format!("killing worker {process}"),
                Command::new("kill").args(["-KILL", &process]),
            )?;
            let is_gone = || Ok((!is_running(&process, &self.sim)).then_some(()));
            wait_for("the end of the worker", is_gone)?;
            let mut lines = read();
            lines.truncate(lines.rfind('\n').map_or(0, |end| end + 1));
            Ok(Some(Killed { file: file.clone(), lines }))
        })
    }

    /// Returns a process that runs a part of the sweep, and the file of its results.
    fn worker(&self, runs: &Path) -> Option<(u32, PathBuf)> {
        let files = fs::read_dir(runs).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let files: Vec<PathBuf> = files.collect();
        let mut processes = fs::read_dir("/proc")
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        processes.find_map(|process| {
            if !is_running(&process.to_string(), &self.sim) {
                return None;
            }
            let words = fs::read_to_string(format!("/proc/{process}/cmdline")).ok()?;
            let mut words = words.split('\0');
            words.by_ref().find(|word| Path::new(word) == runs)?;
            let shard = words.find(|word| word.ends_with(&format!("/{SHARDS}")))?;
            let ending = format!(".{}.runs.jsonl", shard.replace('/', "-of-"));
            let file = files.iter().find(|file| file.to_string_lossy().ends_with(&ending))?;
            Some((process, file.clone()))
        })
    }

    /// Runs the command of the pods, once for each index.
    fn with_kubernetes(&self) -> Result<(), String> {
        let path = self.jobs.join("kubernetes.yaml");
        let text = fs::read_to_string(&path).map_err(|error| at(&path, &error))?;
        let script = text.lines().find_map(|line| line.trim().strip_prefix("- exec "));
        let script = script.ok_or_else(|| format!("{}: expected - exec …", path.display()))?;
        for index in 0..SHARDS {
            let mut pod = self.command("sh");
            pod.args(["-c", script]).env("FILE", self.file()).env("FOLDER", "kubernetes");
            pod.env("SHARDS", SHARDS.to_string()).env("JOB_COMPLETION_INDEX", index.to_string());
            succeed(&format!("pod {index}"), &mut pod)?;
        }
        self.compare("kubernetes")
    }

    fn with_parallel(&self) -> Result<(), String> {
        let way = "parallel";
        let start = || {
            let mut command = self.command(self.jobs.join("parallel.sh"));
            command.arg(self.file()).arg(SHARDS.to_string()).arg(self.folder.join(way));
            command.args(["--jobs", "2"]);
            command
        };
        let mut first = start();
        let mut first =
            first.args(["--retries", "1"]).spawn().map_err(|error| error.to_string())?;
        let killed = self.kill_a_worker(way);
        let ended = first.wait().map_err(|error| error.to_string())?;
        let killed = killed?;
        if ended.success() {
            return Err(format!("sweep with {way}: no failure, although a worker was killed"));
        }
        succeed("the same command again", &mut start())?;
        killed.has_continued()?;
        self.compare(way)
    }

    fn with_slurm(&self) -> Result<(), String> {
        let way = "slurm";
        let cluster = Cluster::start(&self.folder.join("cluster"))?;
        let submit = || {
            let mut sbatch = self.command("sbatch");
            sbatch.arg("--parsable").arg(format!("--array=1-{SHARDS}"));
            sbatch.arg(self.jobs.join("slurm.sh")).arg(self.file()).arg(SHARDS.to_string());
            output("sbatch", cluster.of(sbatch.arg(self.folder.join(way))))
        };
        let first = submit()?;
        let killed = self.kill_a_worker(way)?;
        let states = cluster.states(first.trim())?;
        if states.iter().filter(|state| *state == "FAILED").count() != 1 {
            return Err(format!("sweep with {way}: {states:?} (expected one FAILED)"));
        }
        let again = submit()?;
        let states = cluster.states(again.trim())?;
        if states != ["COMPLETED"; SHARDS] {
            return Err(format!("sweep with {way}: {states:?} (expected all COMPLETED)"));
        }
        killed.has_continued()?;
        self.compare(way)
    }
}

impl Killed {
    /// Checks that the results of the killed worker were kept, and that some were missing.
    fn has_continued(&self) -> Result<(), String> {
        let now = fs::read_to_string(&self.file).map_err(|error| at(&self.file, &error))?;
        let (before, after) = (self.lines.lines().count() - 1, now.lines().count() - 1);
        if before < after && now.starts_with(&self.lines) {
            eprintln!("xtask: continued after {before} of {after} runs of the killed part");
            return Ok(());
        }
        Err(format!("{}: {before} runs, then {after} (expected more)", self.file.display()))
    }
}

/// Returns true if the process runs this program.
fn is_running(process: &str, program: &Path) -> bool {
    fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|running| running == program)
}

/// A Slurm cluster of this machine, with all its files in one folder. It stops when it is dropped.
struct Cluster {
    settings: PathBuf,
    daemons: Vec<Child>,
}

impl Cluster {
    fn start(folder: &Path) -> Result<Self, String> {
        fs::create_dir_all(folder.join("state")).map_err(|error| at(folder, &error))?;
        let settings = folder.join("slurm.conf");
        let mut cluster = Self { settings, daemons: Vec::new() };
        fs::write(&cluster.settings, slurm_conf(folder)?)
            .and_then(|()| fs::write(folder.join("cgroup.conf"), "CgroupPlugin=cgroup/v1\n"))
            .map_err(|error| at(folder, &error))?;
        let key = folder.join("munge.key");
        // The cluster lives for seconds, on this machine: the key need not be secret.
        fs::write(&key, [7; 64]).map_err(|error| at(&key, &error))?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600))
            .map_err(|error| at(&key, &error))?;
        let mut munged = Command::new("munged");
        munged.args(["--foreground", "--force", "--num-threads", "1"]);
        for (option, name) in [
            ("--key-file", "munge.key"),
            ("--socket", "munge.socket"),
            ("--pid-file", "munge.pid"),
            ("--log-file", "munge.log"),
            ("--seed-file", "munge.seed"),
        ] {
            munged.arg(option).arg(folder.join(name));
        }
        cluster.daemon("munged", &mut munged, folder)?;
        wait_for("munged", || Ok(folder.join("munge.socket").exists().then_some(())))?;
        for name in ["slurmctld", "slurmd"] {
            cluster.daemon(name, Command::new(name).arg("-D"), folder)?;
        }
        wait_for("an idle node of Slurm", || {
            let sinfo =
                cluster.of(Command::new("sinfo").args(["--noheader", "--format=%T"])).output();
            let sinfo = sinfo.map_err(|error| format!("sinfo: {error}"))?;
            sleep(Duration::from_millis(100));
            Ok((sinfo.stdout == b"idle\n").then_some(()))
        })?;
        Ok(cluster)
    }

    /// Starts a daemon that logs to a file in `folder`.
    fn daemon(&mut self, name: &str, command: &mut Command, folder: &Path) -> Result<(), String> {
        let log = fs::File::create(folder.join(format!("{name}.out")));
        let log = log.map_err(|error| at(folder, &error))?;
        let daemon = self.of(command).stdout(Stdio::null()).stderr(log).spawn();
        self.daemons.push(daemon.map_err(|error| format!("{name} did not start: {error}"))?);
        Ok(())
    }

    /// Makes a command use this cluster.
    fn of<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("SLURM_CONF", &self.settings)
    }

    /// Waits for the end of a job array and returns the states of its tasks.
    fn states(&self, job: &str) -> Result<Vec<String>, String> {
        let step = format!("end of job {job}");
        wait_for(&step, || {
            let mut squeue = Command::new("squeue");
            squeue.args(["--noheader", "--array", "--states=all", "--format=%T", "--jobs", job]);
            let states = output(&step, self.of(&mut squeue))?;
            let states: Vec<String> = states.lines().map(|line| line.trim().to_owned()).collect();
            let active = ["PENDING", "CONFIGURING", "RUNNING", "COMPLETING"];
            sleep(Duration::from_millis(100));
            Ok((!states.iter().any(|state| active.contains(&state.as_str()))).then_some(states))
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            // Errors mean that it has ended.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Returns the settings of a cluster of one node, with two processors for a task each, and with
/// long timeouts: in CI the daemons have the lowest priority.
fn slurm_conf(folder: &Path) -> Result<String, String> {
    let host = output("name of the machine", Command::new("uname").arg("-n"))?;
    let host = host.trim().split('.').next().unwrap_or_default();
    let user = output("name of the user", Command::new("id").arg("-un"))?;
    let [controller, node] = free_ports()?;
    let folder = folder.display();
    Ok(format!(
        "ClusterName=sweep
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MailProg=/bin/true
MessageTimeout=100
BatchStartTimeout=300
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=sweep Nodes={host} Default=YES MaxTime=INFINITE OverSubscribe=NO
",
        user = user.trim(),
    ))
}

/// Returns two ports of this machine that nothing uses.
fn free_ports() -> Result<[u16; 2], String> {
    let free = || std::net::TcpListener::bind("127.0.0.1:0");
    let ports = || Ok([free()?, free()?]);
    let listeners: [std::net::TcpListener; 2] =
        ports().map_err(|error: std::io::Error| format!("free ports: {error}"))?;
    let [first, second] = listeners.map(|listener| listener.local_addr().map(|at| at.port()));
    first.and_then(|first| Ok([first, second?])).map_err(|error| format!("free ports: {error}"))
}
