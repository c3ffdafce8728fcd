package dev.starling.distributed;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/** Shared memory that this process has open. */
public final class MappedMemory {
    private static final Path OPEN = Path.of("/proc/self/fd");

    private MappedMemory() { }

    /** Returns whether this system has such memory. */
    public static boolean isAvailable() {
        return Files.isDirectory(OPEN);
    }

    /** Returns the number of memories that have room for at least this many bytes, and for no two pages more. */
    public static long count(long bytes) {
        try (Stream<Path> open = Files.list(OPEN)) {
            return open.filter(each -> holds(each, bytes)).count();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static boolean holds(Path file, long bytes) {
        try {
            long size = Files.size(file);
            return Files.readSymbolicLink(file).toString().startsWith("/memfd:") && size >= bytes
                    && size < bytes + 2 * 4096;
        } catch (IOException e) {
            return false;
        }
    }
}
