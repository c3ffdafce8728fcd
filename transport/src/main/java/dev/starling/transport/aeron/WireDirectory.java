package dev.starling.transport.aeron;

import dev.starling.transport.TransportException;
import dev.starling.transport.system.SystemCall;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.agrona.CloseHelper;
import org.jspecify.annotations.Nullable;

/**
 * The directory of one wire or driver. A lock, which ends with its owner, distinguishes it from one that a killed
 * process left behind. A wire announces here how it is reached within the host, so that others on the same host need no
 * network.
 */
final class WireDirectory implements AutoCloseable {
    private static final String PREFIX = "starling-aeron-";
    /**
     * What the names of this process's directories begin with, also of those that belong to a copy of this class in
     * another class loader: a system property is the same for all. The process number alone does not tell processes
     * apart that run in containers which share the directory.
     */
    private static final String OWN = PREFIX + ProcessHandle.current().pid() + '-'
            + System.getProperties().computeIfAbsent("starling.aeron.process", key -> random()) + '-';
    /** Tells the directories of this copy of the class from those of others in the process. */
    private static final String COPY = random() + '-';
    private static final String LOCK = "lock";
    private static final String ANNOUNCEMENT = "wire";
    /** More than two paths and a number take, in bytes. */
    private static final int MAX_ANNOUNCEMENT = 16 * 1024;
    /** Number of this process's user, which need not have a name; {@code null} where it is not known. */
    private static final @Nullable Integer USER =
            SystemCall.isOnLinux("geteuid") ? SystemCall.of("geteuid").call() : null;
    private static final AtomicInteger COUNT = new AtomicInteger();

    private final Path path;
    private final FileChannel lock;

    private WireDirectory(Path path, FileChannel lock) {
        this.path = path;
        this.lock = lock;
    }

    /**
     * The path to a wire within the host.
     *
     * @param endpoint of the wire: network namespace, numeric address and port
     * @param driver directory of its media driver
     * @param stream of that driver to which it listens
     * @param directory of the wire
     */
    record Announcement(String endpoint, Path driver, int stream, Path directory) {
        /** Returns whether the wire's process has ended. */
        boolean isAbandoned() {
            return WireDirectory.isAbandoned(directory);
        }
    }

    private static String random() {
        return Long.toHexString(new SecureRandom().nextLong());
    }

    static Path defaultBase() {
        Path memory = Path.of("/dev/shm");
        return Files.isDirectory(memory) && Files.isWritable(memory) ? memory
                : Path.of(System.getProperty("java.io.tmpdir"));
    }

    /** Creates a directory that only this user may enter. */
    static WireDirectory create(Path base) {
        String name = OWN + COPY + COUNT.incrementAndGet();
        Path hidden = null;
        FileChannel channel = null;
        try {
            Files.createDirectories(base);
            // Other processes must not find the directory before it is locked: they would sweep it away.
            hidden = Files.createTempDirectory(base, "." + name,
                    PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
            channel = FileChannel.open(hidden.resolve(LOCK), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            channel.lock();
            Path path = base.resolve(name);
            Files.move(hidden, path, StandardCopyOption.ATOMIC_MOVE);
            return new WireDirectory(path, channel);
        } catch (IOException e) {
            CloseHelper.quietClose(channel);
            if (hidden != null) {
                hidden.resolve(LOCK).toFile().delete();
                hidden.toFile().delete();
            }
            throw new TransportException(TransportException.Problem.ARGUMENT, "cannot create a directory in " + base
                    + ": " + e, "choose another directory", e);
        }
    }

    Path driver() {
        return path.resolve("driver");
    }

    /** Announces to the other processes of this host how to reach this wire. */
    Announcement announce(String endpoint, Path driver, int stream) {
        Announcement announcement = new Announcement(endpoint, driver, stream, path);
        try {
            Path draft = path.resolve("draft");
            Files.write(draft, List.of(endpoint, driver.toString(), Integer.toString(stream)));
            Files.move(draft, path.resolve(ANNOUNCEMENT), StandardCopyOption.ATOMIC_MOVE);
            return announcement;
        } catch (IOException e) {
            throw AeronSettings.noRoom(path, "cannot write to it: " + e, e);
        }
    }

    /** Returns the announcement of the wire at an endpoint, or {@code null} if it is not on this host. */
    static @Nullable Announcement find(Path base, String endpoint) {
        for (Path directory : list(base)) {
            try {
                // Everybody may make a directory here, and in it a pipe or an endless file.
                List<String> lines = isOurs(directory) ? lines(directory.resolve(ANNOUNCEMENT)) : List.of();
                if (lines.size() == 3 && lines.getFirst().equals(endpoint) && !isAbandoned(directory)) {
                    return new Announcement(endpoint, Path.of(lines.get(1)), Integer.parseInt(lines.get(2)), directory);
                }
            } catch (IOException e) {
                continue; // Not announced yet, or no longer announced.
            }
        }
        return null;
    }

    private static List<String> lines(Path file) throws IOException {
        return Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS) && Files.size(file) <= MAX_ANNOUNCEMENT
                ? Files.readAllLines(file) : List.of();
    }

    /** Deletes directories of killed processes; returns how many. */
    static int sweep(Path base) {
        int swept = 0;
        for (Path directory : list(base)) {
            try {
                if (isOurs(directory) && isAbandoned(directory)) {
                    delete(directory);
                    swept++;
                }
            } catch (IOException e) {
                continue; // Another process sweeps too, or another user owns the directory.
            }
        }
        return swept;
    }

    private static List<Path> list(Path base) {
        List<Path> found = new ArrayList<>();
        try (DirectoryStream<Path> all = Files.newDirectoryStream(base, PREFIX + "*")) {
            all.forEach(found::add);
        } catch (IOException e) {
            return List.of();
        }
        return found;
    }

    private static boolean isOurs(Path directory) throws IOException {
        return Files.isDirectory(directory, LinkOption.NOFOLLOW_LINKS) && (USER == null
                ? Files.getOwner(directory, LinkOption.NOFOLLOW_LINKS).getName().equals(System.getProperty("user.name"))
                : USER.equals(Files.getAttribute(directory, "unix:uid", LinkOption.NOFOLLOW_LINKS)));
    }

    private static boolean isAbandoned(Path directory) {
        if (directory.getFileName().toString().startsWith(OWN)) {
            // Opening and closing the lock file of this process would release its lock.
            return !Files.exists(directory);
        }
        try (FileChannel channel = FileChannel.open(directory.resolve(LOCK), StandardOpenOption.WRITE);
                FileLock held = channel.tryLock()) {
            return held != null;
        } catch (NoSuchFileException e) {
            return true;
        } catch (OverlappingFileLockException | IOException e) {
            return false;
        }
    }

    private static void delete(Path directory) throws IOException {
        if (!Files.exists(directory)) {
            return;
        }
        try (Stream<Path> all = Files.walk(directory)) {
            for (Path each : all.toList().reversed()) {
                Files.deleteIfExists(each);
            }
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
    }

    @Override
    public void close() {
        try (lock) {
            delete(path);
        } catch (IOException e) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "cannot delete " + path + ": " + e,
                    "delete it by hand", e);
        }
    }
}
