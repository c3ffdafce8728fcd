package dev.starling.transport;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Pattern;

/**
 * Zeroed memory that {@link Transport#allocate} has made and {@link Transport#register(AllocatedMemory)} takes. Making
 * it takes long, a millisecond per mebibyte and more, and needs no lock; registering it is short.
 */
public final class AllocatedMemory {
    /** Small memory stays in small pages: moving memory into large pages takes a millisecond per mebibyte. */
    private static final long MIN_LARGE_PAGE_BYTES = 16 << 20;
    /** What the kernel reports of a process's memory, in kibibytes. */
    private static final Pattern USED = Pattern.compile("RssAnon:|RssShmem:|VmSwap:");

    private final MemorySegment memory;
    private final long token;
    /** Id of this process, under which peers open the memory; 0 if they cannot map it. */
    private final long process;
    private final int descriptor;
    private final Runnable storage;

    private AllocatedMemory(MemorySegment memory, long token, long process, int descriptor, Runnable storage) {
        this.memory = memory;
        this.token = token;
        this.process = process;
        this.descriptor = descriptor;
        this.storage = storage;
    }

    /** Allocates memory; peers on this host may map it if it is to be shared, where the system allows that. */
    static AllocatedMemory of(long bytes, boolean sparse, boolean share) {
        if ((!sparse || !SharedMemory.isAvailable()) && bytes >= MIN_LARGE_PAGE_BYTES
                && ManagementFactory.getOperatingSystemMXBean() instanceof OperatingSystemMXBean system) {
            requireRoom(bytes, system.getTotalMemorySize() + Math.max(0, system.getTotalSwapSpaceSize()));
        }
        long token = Authentication.randomLong();
        if (share && SharedMemory.isAvailable()) {
            SharedMemory made = SharedMemory.create(bytes, token, sparse);
            return new AllocatedMemory(made.memory(), token, ProcessHandle.current().pid(), made.descriptor(),
                    made::close);
        }
        Arena arena = Arena.ofShared();
        try {
            boolean absent = sparse && bytes > 0 && SharedMemory.isAvailable();
            boolean large = !absent && bytes >= MIN_LARGE_PAGE_BYTES;
            MemorySegment memory = absent ? SharedMemory.reserve(bytes, arena)
                    : arena.allocate(bytes, large ? SharedMemory.LARGE_PAGE : 4096);
            if (large) {
                SharedMemory.collapse(memory);
            }
            return new AllocatedMemory(memory, token, 0, 0, arena::close);
        } catch (OutOfMemoryError e) {
            arena.close();
            throw new TransportException(TransportException.Problem.NO_ROOM, "cannot allocate " + bytes + " bytes: "
                    + e.getMessage(), "free memory, or raise Java's limit with -XX:MaxDirectMemorySize", e);
        }
    }

    /** Throws if the machine has less memory beside what this process uses: the system would kill a process. */
    static void requireRoom(long bytes, long memory) {
        long used = used();
        if (memory > 0 && bytes > memory - used) {
            throw new TransportException(TransportException.Problem.NO_ROOM, "cannot allocate " + bytes
                    + " bytes: this machine or container has " + memory + " bytes of memory and swap space, of which"
                    + " this process uses " + used, "use less, or registerSparse where most of it stays empty");
        }
    }

    /** Returns how many bytes this process uses, without files that it maps; 0 if that is not known. */
    private static long used() {
        try {
            return Files.readAllLines(Path.of("/proc/self/status")).stream()
                    .filter(line -> USED.matcher(line).lookingAt())
                    .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")) << 10).sum();
        } catch (IOException e) {
            return 0;
        }
    }

    MemorySegment segment() {
        return memory;
    }

    /** Returns the key of a region of this memory. */
    RegionKey key(long region, byte[] registration) {
        return new RegionKey(region, token, memory.byteSize(), process, descriptor, registration);
    }

    void free() {
        storage.run();
    }
}
