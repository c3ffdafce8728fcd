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

/**
 * The one directory in which a launch and its processes keep files, for its user's eyes alone: a folder of what
 * {@code STARLING_DIRECTORY} names, else of memory ({@code /dev/shm}) where there is room, else of the temporary
 * directory. Goes with the launch, however that ends.
 */
final class LaunchDirectory implements AutoCloseable {
    private static final Path MEMORY = Path.of("/dev/shm");
    private static final String PREFIX = "starling-launch-";
    /** What Aeron keeps for a process, and for each end of a link, unless it is told other sizes. */
    private static final long PROCESS_BYTES = 12L << 20;
    private static final long LINK_BYTES = 6L << 20;

    private final Path path;

    private LaunchDirectory(Path path) {
        this.path = path;
    }

    /**
     * Makes a directory.
     *
     * @param named the directory to make it in, which is made if it is not there; or {@code null} or blank if none was
     *     named
     * @param processes that are to be started
     */
    static LaunchDirectory make(String named, int processes) throws IOException {
        return make(named, MEMORY, processes);
    }

    static LaunchDirectory make(String named, Path memory, int processes) throws IOException {
        if (named == null || named.isBlank()) {
            boolean fits = Files.isWritable(memory)
                    && Files.getFileStore(memory).getUsableSpace() >= roomBytes(processes);
            return in(fits ? memory : Path.of(System.getProperty("java.io.tmpdir")));
        }
        try {
            return in(Files.createDirectories(Path.of(named).toAbsolutePath()));
        } catch (IOException e) {
            throw new IOException("no folder can be made in " + named + ", which " + LaunchedProcess.DIRECTORY
                    + " names: " + e, e);
        }
    }

    private static LaunchDirectory in(Path parent) throws IOException {
        return new LaunchDirectory(Files.createTempDirectory(parent, PREFIX,
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"))));
    }

    /** Returns the room that so many processes and a coordinator want, each of which has a link to each other. */
    static long roomBytes(int processes) {
        long members = processes + 1L;
        return members * (PROCESS_BYTES + (members - 1) * LINK_BYTES);
    }

    Path path() {
        return path;
    }

    /** Writes the secret into a file that only this user may read, and returns the file. */
    Path write(Secret secret) throws IOException {
        Path file = Files.createFile(path.resolve("secret"),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        return Files.writeString(file, secret.toHex(), StandardOpenOption.WRITE);
    }

    /** Removes it with all that is in it. Files that vanish meanwhile do not matter. */
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
