package dev.starling.distributed.soak;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import dev.starling.tensor.Device;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.lang.management.MemoryUsage;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;

/**
 * Resources of a process after a number of steps of a run.
 *
 * @param step number of steps
 * @param heap bytes of reachable objects
 * @param resident bytes of the process's resident memory
 * @param allocations number of native allocations for tensors
 * @param files open files, including unnamed shared memory, without jars, which the JVM opens when it first needs them
 * @param threads live threads
 * @param minStepBytes bytes of objects that the training thread allocated in the cheapest of the last steps. Other
 *     steps may have had more work: the number of messages and the share of examples depend on the scheduling of
 *     threads
 * @param background bytes of objects that all threads of groups have allocated
 */
record ResourceUsage(long step, long heap, long resident, long allocations, long files, long threads, long minStepBytes,
        long background) {
    private static final long KIB = 1024;
    /** Less than 60 bytes a step in a long run. */
    private static final long MAX_HEAP_GROWTH = 512 * KIB;
    /** Growth of the JVM itself: compiled code, and its own memory. */
    private static final long MAX_RESIDENT_GROWTH = 24 * KIB * KIB;
    /** Deoptimisation may undo escape analysis; an allocation that grows with the steps would at least double. */
    private static final double MAX_STEP_GROWTH = 1.5;
    private static final double MAX_BACKGROUND_GROWTH = KIB;
    private static final int COLLECTIONS = 3;

    /** Measures the resources of this process. */
    static ResourceUsage of(long step, long minStepBytes) {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        long heap = Long.MAX_VALUE;
        for (int i = 0; i < COLLECTIONS; i++) {
            System.gc();
            // The minimum, because other threads may hold temporary objects.
            heap = Math.min(heap, leftByCollection());
        }
        try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"));
                Stream<String> status = Files.lines(Path.of("/proc/self/status"))) {
            long resident = status.filter(line -> line.startsWith("VmRSS:"))
                    .mapToLong(line -> Long.parseLong(line.replaceAll("\\D+", ""))).sum() * KIB;
            long[] groups = Thread.getAllStackTraces().keySet().stream()
                    .filter(t -> t.getName().startsWith("starling-")).mapToLong(Thread::threadId).toArray();
            return new ResourceUsage(step, heap, resident, Device.cpu().memory().allocations(),
                    files.filter(file -> !isJar(file)).count(), threads.getThreadCount(), minStepBytes,
                    Arrays.stream(threads.getThreadAllocatedBytes(groups)).sum());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static boolean isJar(Path file) {
        try {
            return Files.readSymbolicLink(file).toString().endsWith(".jar");
        } catch (IOException closedMeanwhile) {
            return false;
        }
    }

    /** Returns the bytes left by the last collection, without later objects, which would count by whole regions. */
    private static long leftByCollection() {
        return ManagementFactory.getMemoryPoolMXBeans().stream().filter(pool -> pool.getType() == MemoryType.HEAP)
                .map(MemoryPoolMXBean::getCollectionUsage).filter(Objects::nonNull).mapToLong(MemoryUsage::getUsed)
                .sum();
    }

    /** Parses the text of {@link #toText}. */
    static ResourceUsage parse(String text) {
        long[] all = Arrays.stream(text.strip().split(" ")).mapToLong(Long::parseLong).toArray();
        return new ResourceUsage(all[0], all[1], all[2], all[3], all[4], all[5], all[6], all[7]);
    }

    String toText() {
        return step + " " + heap + " " + resident + " " + allocations + " " + files + " " + threads + " "
                + minStepBytes + " " + background;
    }

    private double backgroundSince(ResourceUsage earlier) {
        return (background - earlier.background) / (double) (step - earlier.step);
    }

    /** Returns the bytes of objects that the calling thread has allocated so far. */
    static long allocatedBytes() {
        return ((ThreadMXBean) ManagementFactory.getThreadMXBean()).getCurrentThreadAllocatedBytes();
    }

    /** Returns whether allocation since {@code middle} has not grown over that from {@code early} to {@code middle}. */
    boolean isFlatSince(ResourceUsage middle, ResourceUsage early) {
        return minStepBytes < MAX_STEP_GROWTH * middle.minStepBytes
                && backgroundSince(middle) < maxBackground(middle, early);
    }

    private static double maxBackground(ResourceUsage middle, ResourceUsage early) {
        return MAX_STEP_GROWTH * middle.backgroundSince(early) + MAX_BACKGROUND_GROWTH;
    }

    /** Checks that resources do not grow with the length of a run. */
    static void assertFlat(ResourceUsage early, ResourceUsage middle, ResourceUsage late) {
        String all = early + "\n" + middle + "\n" + late;
        assertSame(early, middle, late, all);
        assertThat((double) late.minStepBytes).as("objects a step in\n%s", all)
                .isLessThan(MAX_STEP_GROWTH * middle.minStepBytes);
        assertThat(late.backgroundSince(middle)).as("objects of the group a step in\n%s", all)
                .isLessThan(maxBackground(middle, early));
    }

    private static void assertSame(ResourceUsage early, ResourceUsage middle, ResourceUsage late, String all) {
        assertThat(late.heap - early.heap).as("heap in\n%s", all).isLessThan(MAX_HEAP_GROWTH);
        // One half may allocate, if several threads happen to need memory at the same time.
        assertThat(Math.min(middle.allocations - early.allocations, late.allocations - middle.allocations))
                .as("native allocations in both halves of\n%s", all).isZero();
        assertThat(late.files).as("files in\n%s", all).isEqualTo(early.files);
        assertThat(late.threads).as("threads in\n%s", all).isEqualTo(early.threads);
    }

    /** Steps during which no member has joined or left. */
    record QuietInterval(ResourceUsage begin, ResourceUsage end) {
        /** Returns whether allocation in these steps, and open files, have not grown over those in earlier ones. */
        boolean isFlatSince(QuietInterval earlier) {
            return end.files == earlier.end.files && end.minStepBytes < MAX_STEP_GROWTH * earlier.end.minStepBytes
                    && end.backgroundSince(begin) < maxBackground(earlier.end, earlier.begin);
        }

        /** Checks that resources do not grow with the number of members that have joined and left. */
        static void assertFlat(List<QuietInterval> all) {
            QuietInterval early = all.getFirst();
            QuietInterval middle = all.get(all.size() / 2);
            QuietInterval late = all.getLast();
            String text = early + "\n" + middle + "\n" + late;
            assertSame(early.end, middle.end, late.end, text);
            assertThat((double) late.end.minStepBytes).as("objects a step in\n%s", text)
                    .isLessThan(MAX_STEP_GROWTH * middle.end.minStepBytes);
            assertThat(late.end.backgroundSince(late.begin)).as("objects of the group a step in\n%s", text)
                    .isLessThan(maxBackground(middle.end, middle.begin));
        }
    }

    /** As {@link #assertFlat}, for the resident memory of a process that does nothing else. */
    static void assertResidentFlat(ResourceUsage early, ResourceUsage late) {
        assertThat(late.resident - early.resident).as("resident memory from\n%s\nto\n%s", early, late)
                .isLessThan(MAX_RESIDENT_GROWTH);
    }
}
