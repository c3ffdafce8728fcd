package dev.starling.transport;

import dev.starling.errors.OpenFiles;
import dev.starling.transport.system.SystemCall;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.System.Logger.Level;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import org.jspecify.annotations.Nullable;

/**
 * Memory that processes of one host map together. It has no name in any file system: {@code memfd_create(2)} makes it,
 * peers open it through {@code /proc}, and the kernel frees it when the last process that maps it ends, for whatever
 * reason. Its last bytes hold a token by which a peer checks that it opened the right memory.
 */
final class SharedMemory implements AutoCloseable {
    private static final int PAGE = 4096;
    static final int LARGE_PAGE = 2 << 20;
    private static final int CLOSE_ON_EXEC = 1;
    private static final int COLLAPSE = 25;
    private static final String MORE_MEMORY = "free memory, or raise the limit of the container";
    /** Values of {@code errno}. */
    private static final int NOT_PERMITTED = 1;
    private static final int TOO_MANY_OPEN_FILES = 24;
    private static final int NOT_IMPLEMENTED = 38;
    private static final boolean ON_LINUX = SystemCall.isOnLinux("memfd_create");
    private static final boolean AVAILABLE = ON_LINUX && isPermitted();

    private final Arena arena;
    private final int descriptor;
    private final MemorySegment memory;

    private SharedMemory(Arena arena, int descriptor, MemorySegment memory) {
        this.arena = arena;
        this.descriptor = descriptor;
        this.memory = memory;
    }

    /** Returns whether this operating system supports such memory, and lets this process make it. */
    static boolean isAvailable() {
        return AVAILABLE;
    }

    private static boolean isPermitted() {
        int descriptor = make();
        if (descriptor >= 0) {
            Calls.CLOSE.call(descriptor);
        }
        boolean refused = descriptor == -NOT_PERMITTED || descriptor == -NOT_IMPLEMENTED;
        if (refused) {
            System.getLogger("dev.starling.transport").log(Level.WARNING, "the system refuses memfd_create (errno "
                    + -descriptor + "), perhaps by a container's filter of system calls (seccomp): data between"
                    + " processes of this host go through the transport; permit memfd_create for faster shared memory");
        }
        return !refused;
    }

    /**
     * Moves memory whose pages are already allocated into pages of 2 MiB as far as the kernel has such pages:
     * reductions of tens of megabytes then take half the time. Linux does so on request since 6.1, even where it would
     * not by default; elsewhere the pages stay small.
     */
    static void collapse(MemorySegment memory) {
        long begin = (memory.address() + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
        long end = (memory.address() + memory.byteSize()) / LARGE_PAGE * LARGE_PAGE;
        if (ON_LINUX && begin < end) {
            Calls.ADVISE.call(begin, end - begin, COLLAPSE);
        }
    }

    /** Allocates zeroed memory for this process alone, whose pages come into being when they are first used. */
    static MemorySegment reserve(long bytes, Arena arena) {
        int descriptor = newDescriptor();
        try {
            return map("/proc/self/fd/" + descriptor, bytes, true, arena);
        } catch (IOException e) {
            throw noRoom(bytes, e);
        } finally {
            Calls.CLOSE.call(descriptor);
        }
    }

    /** Allocates zeroed memory with all of its pages present, unless it is {@code sparse}. */
    static SharedMemory create(long bytes, long token, boolean sparse) {
        int descriptor = newDescriptor();
        Arena arena = Arena.ofShared();
        try {
            long whole = room(bytes);
            MemorySegment all = map("/proc/self/fd/" + descriptor, whole, true, arena);
            if (!sparse) {
                all.fill((byte) 0);
                collapse(all);
            }
            all.set(ValueLayout.JAVA_LONG, whole - Long.BYTES, token);
            return new SharedMemory(arena, descriptor, all.asSlice(0, bytes));
        } catch (IOException e) {
            arena.close();
            Calls.CLOSE.call(descriptor);
            throw noRoom(bytes, e);
        }
    }

    /**
     * Maps a file of {@code bytes}, or one that gets this size if it is new. Java closes the file when the thread is
     * interrupted; this then opens it again, and keeps the interrupt for later.
     */
    private static MemorySegment map(String path, long bytes, boolean isNew, Arena arena) throws IOException {
        boolean interrupted = false;
        try {
            while (true) {
                interrupted |= Thread.interrupted();
                try (RandomAccessFile file = new RandomAccessFile(path, "rw")) {
                    if (isNew) {
                        file.setLength(bytes);
                    } else if (file.length() != bytes) {
                        throw new IOException(path + " has another size");
                    }
                    return file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, bytes, arena);
                } catch (ClosedByInterruptException e) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static TransportException noRoom(long bytes, IOException e) {
        String more = String.valueOf(e.getMessage()).contains("File too large")
                ? "raise the limit of the size of files (ulimit -f), which applies to this memory, too" : MORE_MEMORY;
        return new TransportException(TransportException.Problem.NO_ROOM, "cannot map " + bytes
                + " bytes of shared memory: " + e.getMessage(), OpenFiles.remedy(e, more), e);
    }

    private static int newDescriptor() {
        int descriptor = make();
        if (descriptor < 0) {
            throw new TransportException(TransportException.Problem.NO_ROOM, "memfd_create failed with errno "
                    + -descriptor, descriptor == -TOO_MANY_OPEN_FILES ? OpenFiles.remedy() : MORE_MEMORY);
        }
        return descriptor;
    }

    /** Returns the descriptor of new memory, or a negated {@code errno}. */
    private static int make() {
        try (Arena arena = Arena.ofConfined()) {
            return Calls.MEMFD_CREATE.call(arena.allocateFrom("starling"), CLOSE_ON_EXEC);
        }
    }

    /** Maps a peer's memory, or returns {@code null} if it is on another host or not accessible. */
    static @Nullable SharedMemory open(RegionKey key) {
        if (key.process() == 0 || !isAvailable()) {
            return null;
        }
        long whole = room(key.bytes());
        Arena arena = Arena.ofShared();
        try {
            MemorySegment all = map("/proc/" + key.process() + "/fd/" + key.descriptor(), whole, false, arena);
            if (all.get(ValueLayout.JAVA_LONG, whole - Long.BYTES) == key.token()) {
                return new SharedMemory(arena, -1, all.asSlice(0, key.bytes()));
            }
        } catch (IOException e) {
            // Another host, another container or another user: the data travel over the wire.
            arena.close();
            return null;
        }
        arena.close();
        return null;
    }

    private static long room(long bytes) {
        return (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
    }

    MemorySegment memory() {
        return memory;
    }

    int descriptor() {
        return descriptor;
    }

    @Override
    public void close() {
        arena.close();
        if (descriptor >= 0) {
            Calls.CLOSE.call(descriptor);
        }
    }

    /** Functions of the C library, on an operating system that has them. */
    private static final class Calls {
        static final SystemCall MEMFD_CREATE = SystemCall.of("memfd_create", ValueLayout.ADDRESS, ValueLayout.JAVA_INT);
        static final SystemCall CLOSE = SystemCall.of("close", ValueLayout.JAVA_INT);
        static final SystemCall ADVISE = SystemCall.of("madvise", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_INT);
    }
}
