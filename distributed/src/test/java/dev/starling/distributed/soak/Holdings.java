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
 * What a process holds after so many steps of a run.
 *
 * @param step how many
 * @param heap bytes that objects take which something refers to
 * @param resident bytes of memory that the process occupies
 * @param allocations how often the tensors' memory was asked of the system
 * @param files that are open, those without a name in shared memory among them
 * @param threads that live
 * @param least bytes of objects that the training thread has made in one of the last steps. Others may have had more
 *     to do: how many hear from a peer, and what share of the examples each computes, depends on who else has a
 *     processor
 * @param background bytes of objects that all threads of groups had made
 */
record Holdings(long step, long heap, long resident, long allocations, long files, long threads, long least,
        long background) {
    private static final long KIB = 1024;
    /** Less than 60 bytes a step in a long run. */
    private static final long MORE_HEAP = 512 * KIB;
    /** What the JVM itself may come to take: compiled code, and room in its own memory. */
    private static final long MORE_RESIDENT = 24 * KIB * KIB;
    /** Compilers may undo what had saved objects; what grows with the steps would at least double in a run. */
    private static final double MORE_A_STEP = 1.5;
    private static final double MORE_IN_BACKGROUND = KIB;
    private static final int LOOKS = 3;

    /** Measures. */
    static Holdings of(long step, long least) {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        long heap = Long.MAX_VALUE;
        for (int i = 0; i < LOOKS; i++) {
            System.gc();
            // Others had objects in their hands.
            heap = Math.min(heap, leftByCollection());
        }
        try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"));
                Stream<String> status = Files.lines(Path.of("/proc/self/status"))) {
            long resident = status.filter(line -> line.startsWith("VmRSS:"))
                    .mapToLong(line -> Long.parseLong(line.replaceAll("\\D+", ""))).sum() * KIB;
            long[] groups = Thread.getAllStackTraces().keySet().stream()
                    .filter(t -> t.getName().startsWith("starling-")).mapToLong(Thread::threadId).toArray();
            return new Holdings(step, heap, resident, Device.cpu().memory().allocations(), files.count(),
                    threads.getThreadCount(), least,
                    Arrays.stream(threads.getThreadAllocatedBytes(groups)).sum());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns how many bytes the last collection left; what has been made since would count by whole regions. */
    private static long leftByCollection() {
        return ManagementFactory.getMemoryPoolMXBeans().stream().filter(pool -> pool.getType() == MemoryType.HEAP)
                .map(MemoryPoolMXBean::getCollectionUsage).filter(Objects::nonNull).mapToLong(MemoryUsage::getUsed)
                .sum();
    }

    /** Reads what {@link #toText} wrote. */
    static Holdings parse(String text) {
        long[] all = Arrays.stream(text.strip().split(" ")).mapToLong(Long::parseLong).toArray();
        return new Holdings(all[0], all[1], all[2], all[3], all[4], all[5], all[6], all[7]);
    }

    String toText() {
        return step + " " + heap + " " + resident + " " + allocations + " " + files + " " + threads + " " + least + " "
                + background;
    }

    private double backgroundSince(Holdings earlier) {
        return (background - earlier.background) / (double) (step - earlier.step);
    }

    /** Returns how many bytes of objects the calling thread has made so far. */
    static long made() {
        return ((ThreadMXBean) ManagementFactory.getThreadMXBean()).getCurrentThreadAllocatedBytes();
    }

    /** Whether no more objects were made on the way here from one look than on the way from an earlier one to that. */
    boolean takesNoMoreSince(Holdings middle, Holdings early) {
        return least < MORE_A_STEP * middle.least && backgroundSince(middle) < mostInBackground(middle, early);
    }

    private static double mostInBackground(Holdings middle, Holdings early) {
        return MORE_A_STEP * middle.backgroundSince(early) + MORE_IN_BACKGROUND;
    }

    /** Checks that a run takes no more the longer it lasts. */
    static void assertFlat(Holdings early, Holdings middle, Holdings late) {
        String all = early + "\n" + middle + "\n" + late;
        assertSame(early, middle, late, all);
        assertThat((double) late.least).as("objects a step in\n%s", all).isLessThan(MORE_A_STEP * middle.least);
        assertThat(late.backgroundSince(middle)).as("objects of the group a step in\n%s", all)
                .isLessThan(mostInBackground(middle, early));
    }

    private static void assertSame(Holdings early, Holdings middle, Holdings late, String all) {
        assertThat(late.heap - early.heap).as("heap in\n%s", all).isLessThan(MORE_HEAP);
        // That the needs of several threads come together may be seen once.
        assertThat(Math.min(middle.allocations - early.allocations, late.allocations - middle.allocations))
                .as("native allocations in both halves of\n%s", all).isZero();
        assertThat(late.files).as("files in\n%s", all).isEqualTo(early.files);
        assertThat(late.threads).as("threads in\n%s", all).isEqualTo(early.threads);
    }

    /** Steps between which nobody has come or gone. */
    record Calm(Holdings begin, Holdings end) {
        /** Whether no more objects are made in these steps than in earlier ones. */
        boolean takesNoMoreThan(Calm earlier) {
            return end.least < MORE_A_STEP * earlier.end.least
                    && end.backgroundSince(begin) < mostInBackground(earlier.end, earlier.begin);
        }

        /** Checks that these steps take no more the more others have come and gone before. */
        static void assertFlat(List<Calm> all) {
            Calm early = all.getFirst();
            Calm middle = all.get(all.size() / 2);
            Calm late = all.getLast();
            String text = early + "\n" + middle + "\n" + late;
            assertSame(early.end, middle.end, late.end, text);
            assertThat((double) late.end.least).as("objects a step in\n%s", text)
                    .isLessThan(MORE_A_STEP * middle.end.least);
            assertThat(late.end.backgroundSince(late.begin)).as("objects of the group a step in\n%s", text)
                    .isLessThan(mostInBackground(middle.end, middle.begin));
        }
    }

    /** As {@link #assertFlat}, of a process that does nothing else. */
    static void assertResidentFlat(Holdings early, Holdings late) {
        assertThat(late.resident - early.resident).as("resident memory from\n%s\nto\n%s", early, late)
                .isLessThan(MORE_RESIDENT);
    }
}
