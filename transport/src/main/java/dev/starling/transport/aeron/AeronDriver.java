package dev.starling.transport.aeron;

import dev.starling.errors.OpenFiles;
import dev.starling.transport.TransportException;
import dev.starling.transport.spi.WireConfig;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ReceiveChannelEndpointSupplier;
import io.aeron.driver.ThreadingMode;
import io.aeron.driver.media.ReceiveChannelEndpoint;
import io.aeron.exceptions.StorageSpaceException;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.file.Path;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.AgentInvoker;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.jspecify.annotations.Nullable;

/**
 * A media driver: the component that moves Aeron's messages. Each wire has its own unless its option {@code driver}
 * names the directory of another, such as one started here, in a process that outlives the wires.
 */
public final class AeronDriver implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.transport.aeron");
    private static final long DEFAULT_LIVENESS_NS = TimeUnit.SECONDS.toNanos(20);
    private static final long TIMER_NS = TimeUnit.MILLISECONDS.toNanos(10);
    private static final long STATUS_NS = TimeUnit.MILLISECONDS.toNanos(50);
    private static final int MAX_LOGGED = 100;
    /** The minimum sizes that Aeron accepts. */
    private static final int COUNTERS_BYTES = 1 << 20;
    private static final int ERRORS_BYTES = 4 << 20;

    /** Size in bytes of the files of a driver without links. */
    static final long BYTES = 14L << 20;

    private final @Nullable WireDirectory own;
    private final MediaDriver driver;

    private AeronDriver(@Nullable WireDirectory own, MediaDriver driver) {
        this.own = own;
        this.driver = driver;
    }

    /**
     * Starts a driver with threads of its own: one on a machine of up to four processors, otherwise three.
     *
     * @param directory for its files, which is created and deleted again; {@code null} for the driver's default
     * @throws TransportException if the directory is in use or full
     */
    public static AeronDriver start(@Nullable Path directory) {
        int threads = Runtime.getRuntime().availableProcessors() <= 4 ? 1 : 3;
        if (directory != null) {
            return start(null, directory, threads, DEFAULT_LIVENESS_NS, DEFAULT_LIVENESS_NS,
                    ReceiveChannelEndpoint::new);
        }
        WireDirectory.sweep(WireDirectory.defaultBase());
        WireDirectory own = WireDirectory.create(WireDirectory.defaultBase());
        try {
            return start(own, own.driver(), threads, DEFAULT_LIVENESS_NS, DEFAULT_LIVENESS_NS,
                    ReceiveChannelEndpoint::new);
        } catch (RuntimeException e) {
            own.close();
            throw e;
        }
    }

    /**
     * Starts a driver, which takes ownership of the wire's directory, if there is one.
     *
     * @param sockets creates the sockets at which the driver receives
     */
    static AeronDriver start(@Nullable WireDirectory own, Path directory, int threads, long livenessNs,
            long imageLivenessNs, ReceiveChannelEndpointSupplier sockets) {
        if (own == null && DriverClock.of(directory, TimeUnit.NANOSECONDS.toMillis(livenessNs)) != null) {
            throw new TransportException(TransportException.Problem.IN_USE, "a media driver already runs in "
                    + directory,
                    "use that driver or choose another directory");
        }
        AeronSettings.requireRoom(existing(directory), BYTES, "a media driver");
        MediaDriver.Context context = context(directory, livenessNs, imageLivenessNs)
                .receiveChannelEndpointSupplier(sockets);
        setThreads(context, threads);
        try {
            return new AeronDriver(own, MediaDriver.launch(context));
        } catch (StorageSpaceException e) {
            throw AeronSettings.noRoom(directory, String.valueOf(e.getMessage()), e);
        } catch (Exception e) { // Agrona throws checked exceptions that it does not declare.
            throw new TransportException(TransportException.Problem.UNAVAILABLE, "cannot start a media driver in "
                    + directory + ": " + e.getMessage(), OpenFiles.remedy(e, e instanceof IOException
                    ? "check quotas, and the limits of this process (ulimit -f and -n)" : ""), e);
        }
    }

    private static Path existing(Path directory) {
        Path at = directory.toAbsolutePath();
        Path parent = at.getParent();
        while (parent != null && !at.toFile().isDirectory()) {
            at = parent;
            parent = at.getParent();
        }
        return at;
    }

    /** Returns the settings of a driver, but for its threads. */
    static MediaDriver.Context context(Path directory, long livenessNs, long imageLivenessNs) {
        Set<String> logged = ConcurrentHashMap.newKeySet();
        MediaDriver.Context context = new MediaDriver.Context()
                .aeronDirectoryName(directory.toString())
                .dirDeleteOnStart(true)
                .dirDeleteOnShutdown(true)
                .warnIfDirectoryExists(false)
                .printConfigurationOnStart(false)
                .asyncExecutorEnabled(false)
                // In case that ReservedLogs cannot be used: sparse files reserve no room, and access fails without it.
                .termBufferSparseFile(false)
                .performStorageChecks(true)
                .lowStorageWarningThreshold(0)
                .counterValuesBufferLength(COUNTERS_BYTES)
                .errorBufferLength(ERRORS_BYTES)
                .epochClock(DriverClock.STEADY)
                .timerIntervalNs(TIMER_NS)
                .statusMessageTimeoutNs(STATUS_NS)
                .clientLivenessTimeoutNs(livenessNs)
                .imageLivenessTimeoutNs(imageLivenessNs)
                .publicationConnectionTimeoutNs(livenessNs)
                .publicationUnblockTimeoutNs(2 * livenessNs)
                .publicationLingerTimeoutNs(TimeUnit.SECONDS.toNanos(1))
                .errorHandler(e -> {
                    String message = String.valueOf(e.getMessage());
                    if (logged.size() < MAX_LOGGED && logged.add(message)) {
                        LOG.log(e instanceof StorageSpaceException ? Level.ERROR : Level.WARNING,
                                e instanceof StorageSpaceException ? AeronSettings.noRoom(directory,
                                "a link, of this process or from a peer that waits for it, has no room: " + message,
                                e).getMessage() : message);
                    }
                });
        ReservedLogs.use(context);
        return context;
    }

    private static void setThreads(MediaDriver.Context context, int threads) {
        context.threadingMode(switch (threads) {
            case 0 -> ThreadingMode.INVOKER;
            case 1 -> ThreadingMode.SHARED;
            case 2 -> ThreadingMode.SHARED_NETWORK;
            default -> ThreadingMode.DEDICATED;
        });
        context.sharedThreadFactory(named("driver")).sharedNetworkThreadFactory(named("network"))
                .conductorThreadFactory(named("conductor")).senderThreadFactory(named("sender"))
                .receiverThreadFactory(named("receiver"));
        context.sharedIdleStrategy(idle()).sharedNetworkIdleStrategy(idle()).senderIdleStrategy(idle())
                .receiverIdleStrategy(idle())
                .conductorIdleStrategy(new BackoffIdleStrategy(0, 0, 100_000, 1_000_000));
    }

    /** Spinning pays off only where other threads have processors left. */
    private static IdleStrategy idle() {
        int spins = Runtime.getRuntime().availableProcessors() > 4 ? 1000 : 0;
        return new BackoffIdleStrategy(spins, 100, 20_000, 500_000);
    }

    private static ThreadFactory named(String what) {
        return task -> {
            Thread thread = new Thread(() -> {
                Thread.currentThread().setName("starling-aeron-" + what); // Aeron sets another name.
                task.run();
            });
            thread.setDaemon(true);
            return thread;
        };
    }

    /** Returns the driver's directory: the value of a wire's option {@code driver}. */
    public Path directory() {
        return Path.of(driver.aeronDirectoryName());
    }

    /** Does the driver's work, unless its own threads do; returns the amount. */
    int doWork() {
        AgentInvoker invoker = invoker();
        return invoker == null ? 0 : Uninterrupted.invoke(invoker, driver.context().errorHandler());
    }

    /** Returns the invoker that drives this driver, or {@code null} if its own threads do. */
    @Nullable AgentInvoker invoker() {
        return driver.sharedAgentInvoker();
    }

    /**
     * Deletes files that killed processes left behind.
     *
     * @param base directory as in {@link WireConfig#directory}, {@code null} for the
     *     default
     * @return the number of wires and drivers whose files were deleted
     */
    public static int sweep(@Nullable Path base) {
        return WireDirectory.sweep(base == null ? WireDirectory.defaultBase() : base);
    }

    /** Stops the driver and deletes its files. */
    @Override
    public void close() {
        try {
            driver.close();
        } finally {
            if (own != null) {
                own.close();
            }
        }
    }

    /**
     * Runs a driver until the process is terminated, and prints its directory.
     *
     * @param args the directory, or nothing for the driver's default
     */
    public static void main(String[] args) throws InterruptedException {
        AeronDriver started = start(args.length == 0 ? null : Path.of(args[0]));
        Runtime.getRuntime().addShutdownHook(new Thread(started::close, "starling-aeron-shutdown"));
        System.out.println(started.directory());
        new CountDownLatch(1).await();
    }
}
