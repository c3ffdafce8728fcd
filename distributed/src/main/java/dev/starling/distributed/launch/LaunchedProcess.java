package dev.starling.distributed.launch;

import dev.starling.tensor.TensorException;
import dev.starling.transport.Secret;
import java.nio.file.Path;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Describes a process that was launched as one of several, from environment variables that the launcher, or any other
 * tool that starts processes, has set:
 *
 * <table>
 * <caption>Variables</caption>
 * <tr><th>name</th><th>value</th><th>if it is not set</th></tr>
 * <tr><td>{@code STARLING_RANK}</td><td>number of this process, from 0</td><td>{@code OMPI_COMM_WORLD_RANK},
 * {@code PMI_RANK}, {@code SLURM_PROCID} or {@code JOB_COMPLETION_INDEX}; else the process was not launched</td></tr>
 * <tr><td>{@code STARLING_WORLD}</td><td>number of processes</td><td>{@code OMPI_COMM_WORLD_SIZE}, {@code PMI_SIZE} or
 * {@code SLURM_NTASKS}; else an error</td></tr>
 * <tr><td>{@code STARLING_COORDINATOR}</td><td>{@code host:port} at which the group forms, or {@code file:PATH} of a
 * file that contains it</td><td>none: the processes do not form a group</td></tr>
 * <tr><td>{@code STARLING_COORDINATOR_RANK}</td><td>rank of the process that runs the coordinator at that address, or
 * {@code none} if it runs elsewhere, as that of {@link Launcher} does, in the launching process</td><td>0</td></tr>
 * <tr><td>{@code STARLING_SECRET_FILE}</td><td>file with the cluster's secret in hexadecimal</td><td>
 * {@code STARLING_SECRET}, the secret itself; else an error</td></tr>
 * <tr><td>{@code STARLING_SERVERS}</td><td>how many of the processes, the last ones, are parameter servers</td>
 * <td>0</td></tr>
 * <tr><td>{@code STARLING_ROLE}</td><td>{@code worker} or {@code server}: then the rank variables count the processes
 * of this role only, from 0, and both roles can be started and scaled separately</td><td>ranks count all processes, the
 * workers first</td></tr>
 * <tr><td>{@code STARLING_LOCAL_WORLD}</td><td>number of processes on this host, among which processors are
 * divided</td><td>{@code OMPI_COMM_WORLD_LOCAL_SIZE}; else 1</td></tr>
 * <tr><td>{@code STARLING_LOCAL_RANK}</td><td>number of this process among those, from 0; it selects the GPU</td>
 * <td>{@code OMPI_COMM_WORLD_LOCAL_RANK} or {@code SLURM_LOCALID}; else the rank modulo the local world</td></tr>
 * <tr><td>{@code STARLING_HOST}</td><td>name or address at which the others reach this process</td>
 * <td>127.0.0.1</td></tr>
 * <tr><td>{@code STARLING_DIRECTORY}</td><td>directory for the process's files, which its creator deletes</td><td>the
 * transport's default</td></tr>
 * <tr><td>{@code STARLING_RESTART}</td><td>how often this rank was started before</td><td>0</td></tr>
 * </table>
 *
 * <p>The rank variables of other tools count only where {@code STARLING_COORDINATOR} is set.
 *
 * @param rank number of this process, from 0
 * @param world number of processes, servers included
 * @param servers how many of them, the last ones, are servers
 * @param localWorld number of processes on this host
 * @param localRank number of this process among those, from 0
 * @param coordinator {@code host:port} at which the group forms, or {@code null}
 * @param coordinatorRank rank of the process that runs the coordinator, or -1 if none does
 * @param secret that the members share
 * @param host name or address at which the others reach this process
 * @param directory for the process's files, or {@code null}
 * @param restart how often this rank was started before
 */
public record LaunchedProcess(int rank, int world, int servers, int localWorld, int localRank,
        @Nullable String coordinator, int coordinatorRank, Secret secret, String host, @Nullable Path directory,
        int restart) {
    static final String RANK = "STARLING_RANK";
    static final String WORLD = "STARLING_WORLD";
    static final String SERVERS = "STARLING_SERVERS";
    static final String ROLE = "STARLING_ROLE";
    static final String LOCAL_WORLD = "STARLING_LOCAL_WORLD";
    static final String LOCAL_RANK = "STARLING_LOCAL_RANK";
    static final String COORDINATOR = "STARLING_COORDINATOR";
    static final String COORDINATOR_RANK = "STARLING_COORDINATOR_RANK";
    static final String SECRET_FILE = "STARLING_SECRET_FILE";
    static final String SECRET = "STARLING_SECRET";
    static final String HOST = "STARLING_HOST";
    static final String DIRECTORY = "STARLING_DIRECTORY";
    static final String RESTART = "STARLING_RESTART";
    static final String NONE = "none";
    private static final String WORKER = "worker";
    private static final String SERVER = "server";
    private static final String LOOPBACK = "127.0.0.1";

    /** Checks the values. */
    public LaunchedProcess {
        require(world > 0 && rank >= 0 && rank < world, "0 <= " + RANK + " < " + WORLD, rank + " and " + world);
        require(servers >= 0 && servers < world, "0 <= " + SERVERS + " < " + WORLD, servers + " and " + world);
        require(localWorld > 0, LOCAL_WORLD + " > 0", Integer.toString(localWorld));
        require(localRank >= 0, LOCAL_RANK + " >= 0", Integer.toString(localRank));
        require(coordinatorRank >= -1 && coordinatorRank < world, COORDINATOR_RANK + " < " + WORLD,
                coordinatorRank + " and " + world);
    }

    /** Returns the description of this process, or nothing if it was not launched as one of several. */
    public static Optional<LaunchedProcess> fromEnvironment() {
        return from(System.getenv());
    }

    /**
     * Returns the description of a process with these variables, or nothing if it was not launched as one of several.
     *
     * @throws TensorException if a variable is missing or malformed; the message names it
     */
    public static Optional<LaunchedProcess> from(Map<String, String> variables) {
        boolean grouped = variables.containsKey(COORDINATOR);
        String rank = grouped ? first(variables, RANK, "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID",
                "JOB_COMPLETION_INDEX") : variables.get(RANK);
        if (rank == null) {
            return Optional.empty();
        }
        String world = required(WORLD, first(variables, WORLD, "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
                "the number of processes");
        String localSize = first(variables, LOCAL_WORLD, "OMPI_COMM_WORLD_LOCAL_SIZE");
        int localWorld = localSize == null ? 1 : number(LOCAL_WORLD, localSize);
        String localRank = first(variables, LOCAL_RANK, "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID");
        String coordinatorRank = variables.getOrDefault(COORDINATOR_RANK, "0");
        String directory = variables.get(DIRECTORY);
        int all = number(WORLD, world);
        int servers = number(SERVERS, variables.getOrDefault(SERVERS, "0"));
        return Optional.of(new LaunchedProcess(rank(variables.get(ROLE), number(RANK, rank), all, servers), all,
                servers, localWorld, localRank == null
                        ? number(RANK, rank) % Math.max(1, localWorld) : number(LOCAL_RANK, localRank),
                variables.get(COORDINATOR),
                coordinatorRank.equals(NONE) ? -1 : number(COORDINATOR_RANK, coordinatorRank), secret(variables),
                variables.getOrDefault(HOST, LOOPBACK), directory == null ? null : Path.of(directory),
                number(RESTART, variables.getOrDefault(RESTART, "0"))));
    }

    /**
     * Returns the overall rank of a process from its number among those of its role, or among all if that is {@code
     * null}.
     */
    private static int rank(@Nullable String role, int number, int world, int servers) {
        if (role == null) {
            return number;
        }
        require(role.equals(WORKER) || role.equals(SERVER), ROLE + " to be " + WORKER + " or " + SERVER, role);
        boolean server = role.equals(SERVER);
        int count = server ? servers : world - servers;
        require(number >= 0 && number < count, "0 <= " + RANK + " < " + count + ", the number of " + role + "s by "
                + WORLD + " and " + SERVERS, Integer.toString(number));
        return server ? world - servers + number : number;
    }

    /** Returns whether this process is a parameter server. */
    public boolean isServer() {
        return rank >= workers();
    }

    /** Returns the number of processes that train. */
    public int workers() {
        return world - servers;
    }

    /**
     * Returns the number of processes among which this host's processors and GPUs are divided: its workers if all
     * processes run on this host, otherwise all processes of this host, because servers may run on any host.
     */
    public int localWorkers() {
        return localWorld == world ? workers() : localWorld;
    }

    /** Returns whether this process runs the coordinator. */
    public boolean runsCoordinator() {
        return rank == coordinatorRank;
    }

    /** Returns the number of threads for kernels of this process: its share of the host's processors, at least one. */
    public int threads() {
        return Math.max(1, Runtime.getRuntime().availableProcessors() / localWorkers());
    }

    /**
     * Returns the secret from the variables.
     *
     * @throws TensorException if there is none
     */
    public static Secret secret(Map<String, String> variables) {
        String file = variables.get(SECRET_FILE);
        return file != null ? Secret.read(Path.of(file))
                : Secret.ofHex(required(SECRET_FILE, variables.get(SECRET), "a file with the cluster's secret, of " + 2
                        * Secret.MIN_LENGTH + " or more hexadecimal digits, which only this user may read"));
    }

    private static @Nullable String first(Map<String, String> variables, String... names) {
        for (String name : names) {
            String value = variables.get(name);
            if (value != null) {
                return value;
            }
        }
        return null;
    }

    private static String required(String name, @Nullable String value, String what) {
        require(value != null, name + " to be set (" + what + ")", "nothing");
        return Objects.requireNonNull(value);
    }

    private static int number(String name, String value) {
        try {
            return Integer.parseInt(value.strip());
        } catch (NumberFormatException e) {
            throw TensorException.argument("launched process", name + " must be a whole number, got " + value,
                    "let the launcher set it");
        }
    }

    private static void require(boolean holds, String relation, String got) {
        if (!holds) {
            throw TensorException.argument("launched process", "requires " + relation + ", got " + got,
                    "let the launcher set it");
        }
    }
}
