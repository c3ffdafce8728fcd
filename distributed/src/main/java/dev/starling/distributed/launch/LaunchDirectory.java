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
import java.util.List;

/**
 * The one directory in which a launch and its processes keep files, for its user's eyes alone; in memory
 * ({@code /dev/shm}) where there is room. Goes with the launch, however that ends.
 */
final class LaunchDirectory implements AutoCloseable {
    private static final String PREFIX = "starling-launch-";
    /** Below this, a transport's buffers for even one process do not fit. */
    private static final long ROOM_BYTES = 64L << 20;

    private final Path path;

    private LaunchDirectory(Path path) {
        this.path = path;
    }

    static LaunchDirectory make() throws IOException {
        for (Path parent : List.of(Path.of("/dev/shm"), Path.of(System.getProperty("java.io.tmpdir")))) {
            boolean memory = parent.startsWith("/dev");
            if (!memory || Files.isWritable(parent) && Files.getFileStore(parent).getUsableSpace() >= ROOM_BYTES) {
                return new LaunchDirectory(Files.createTempDirectory(parent, PREFIX,
                        PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"))));
            }
        }
        throw new IllegalStateException("the temporary directory is always tried");
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
