package dev.starling.distributed.launch;

import dev.starling.transport.Secret;
import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import org.jspecify.annotations.Nullable;

/**
 * The one directory in which a launch and its processes keep files, accessible to this user only. It is created in the
 * directory that {@code STARLING_DIRECTORY} names, else in memory ({@code /dev/shm}) where there is room, else in the
 * temporary directory. It is deleted with the launch, however that ends.
 */
final class LaunchDirectory implements AutoCloseable {
    private static final Path MEMORY = Path.of("/dev/shm");
    private static final String PREFIX = "starling-launch-";
    /** Aeron's files of a process, and of each end of a link, with default sizes. */
    private static final long PROCESS_BYTES = 12L << 20;
    private static final long LINK_BYTES = 6L << 20;
    /** What a process requires beyond its files when it starts. */
    private static final long MARGIN_BYTES = 2L << 20;

    private final Path path;

    private LaunchDirectory(Path path) {
        this.path = path;
    }

    /**
     * Creates a directory.
     *
     * @param named parent directory, which is created if it does not exist; or {@code null} or blank if none was named
     * @param processes number of processes that will be started
     */
    static LaunchDirectory make(@Nullable String named, int processes) throws IOException {
        return make(named, MEMORY, processes);
    }

    static LaunchDirectory make(@Nullable String named, Path memory, int processes) throws IOException {
        if (named == null || named.isBlank()) {
            boolean fits = Files.isWritable(memory)
                    && Files.getFileStore(memory).getUsableSpace() >= roomBytes(processes);
            Path parent = fits ? memory : Path.of(System.getProperty("java.io.tmpdir"));
            try {
                return in(parent);
            } catch (IOException e) {
                throw new IOException("cannot create a directory in " + parent + ": " + e + "; name another directory "
                        + "in " + LaunchedProcess.DIRECTORY, e);
            }
        }
        try {
            return in(Files.createDirectories(Path.of(named).toAbsolutePath()));
        } catch (IOException e) {
            throw new IOException("cannot create a directory in " + named + ", which " + LaunchedProcess.DIRECTORY
                    + " names: " + e, e);
        }
    }

    private static LaunchDirectory in(Path parent) throws IOException {
        return new LaunchDirectory(Files.createTempDirectory(parent, PREFIX,
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"))));
    }

    /** Returns the space that a number of processes and a coordinator need, each of which has a link to each other. */
    static long roomBytes(int processes) {
        long members = processes + 1L;
        return members * (PROCESS_BYTES + (members - 1) * LINK_BYTES) + MARGIN_BYTES;
    }

    Path path() {
        return path;
    }

    /** Writes the secret into a file that only this user may read, and returns the file. */
    Path write(Secret secret) throws IOException {
        try {
            Path file = Files.createFile(path.resolve("secret"),
                    PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
            return Files.writeString(file, secret.toHex(), StandardOpenOption.WRITE);
        } catch (IOException e) {
            throw new IOException("cannot write to " + path + ": " + e + "; free space there, or name another "
                    + "directory in " + LaunchedProcess.DIRECTORY, e);
        }
    }

    /** Deletes the directory with its files, some of which may vanish meanwhile. */
    @Override
    public void close() throws IOException {
        try {
            Files.walkFileTree(path, new SimpleFileVisitor<>() {
                @Override
                public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                    Files.deleteIfExists(file);
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult visitFileFailed(Path file, IOException e) throws IOException {
                    if (e instanceof NoSuchFileException) {
                        return FileVisitResult.CONTINUE;
                    }
                    throw e;
                }

                @Override
                public FileVisitResult postVisitDirectory(Path directory, IOException e) throws IOException {
                    Files.deleteIfExists(directory);
                    return FileVisitResult.CONTINUE;
                }
            });
        } catch (NoSuchFileException gone) {
            return;
        }
    }
}
