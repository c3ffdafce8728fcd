package dev.starling.nn.train;

import com.sun.management.ThreadMXBean;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.Example;
import dev.starling.nn.data.Field;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.Networks;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.CompilationMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Trains a perceptron 784-1024-1024-10 with the loader and the trainer in batches of 4, and prints its memory use after
 * step 1,000, after every tenth of the run, and at its end. Linux only.
 *
 * <p>The argument is the number of steps. The heap should have a fixed size and be touched at start ({@code -Xms256m
 * -Xmx256m -XX:+AlwaysPreTouch}), so that changes of the resident memory are changes of the memory outside the heap.
 */
final class MlpSoak implements TrainingListener {
    static final int WARM_UP_STEPS = 1_000;
    private static final int BATCH = 4;
    private static final int PIXELS = 784;
    private static final int QUIET_MS = 6_000;

    private final int steps;
    private final ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    private long heapBytesAt;
    private long stepAt;

    /**
     * A reading.
     *
     * @param step step after which it was made
     * @param residentKib resident memory of the process, after a garbage collection
     * @param heapBytesPerStep bytes that all threads together allocated on the heap per step since the last reading
     * @param systemAllocations number of allocations of off-heap memory from the system since the start
     */
    record Reading(long step, long residentKib, long heapBytesPerStep, long systemAllocations) {
        private static final String FORMAT = "step %d: resident %d KiB, heap %d bytes per step, %d system allocations";

        @Override
        public String toString() {
            return String.format(Locale.ROOT, FORMAT, step, residentKib, heapBytesPerStep, systemAllocations);
        }

        static Reading parse(String line) {
            String[] numbers = line.replaceAll("\\D+", " ").strip().split(" ");
            return new Reading(Long.parseLong(numbers[0]), Long.parseLong(numbers[1]), Long.parseLong(numbers[2]),
                    Long.parseLong(numbers[3]));
        }
    }

    private MlpSoak(int steps) {
        this.steps = steps;
    }

    public static void main(String[] arguments) {
        int steps = Integer.parseInt(arguments[0]);
        Sequential model = Networks.mlp(Generator.seeded(1), PIXELS, 1024, 1024, 10);
        try (Optimizer sgd = Sgd.over(model).rate(0.01).momentum(0.9).build();
                DataLoader noise = DataLoader.of(noise(WARM_UP_STEPS * BATCH)).batchSize(BATCH).workers(1).build()) {
            Trainer.of(model, Loss.crossEntropy(), sgd).data(noise).epochs(Math.ceilDiv(steps, WARM_UP_STEPS))
                    .metrics(Metric.accuracy()).listeners(new MlpSoak(steps)).build().run();
        }
    }

    /** Noise whose labels are noise, too, and new in every epoch: it cannot be memorised, so gradients never vanish. */
    private static Dataset noise(int size) {
        return new Dataset() {
            @Override
            public int size() {
                return size;
            }

            @Override
            public List<Field> fields() {
                return List.of(Field.of(DType.F32, PIXELS), Field.of(DType.I64));
            }

            @Override
            public void write(int index, Example target) {
                long state = (long) target.epoch() * size + index;
                float[] pixels = target.floats(0);
                for (int i = 0; i < PIXELS; i++) {
                    state = state * 6364136223846793005L + 1442695040888963407L;
                    pixels[i] = (state >> 40) * 0x1p-23f;
                }
                target.put(0, pixels);
                target.put(1, (state >>> 33) % 10);
            }
        };
    }

    @Override
    public void stepEnded(Progress progress) {
        if (progress.step() == WARM_UP_STEPS || progress.step() % (steps / 10) == 0 || progress.step() == steps) {
            System.out.println(read(progress.step()));
        }
        if (progress.step() == steps) {
            progress.stop();
        }
    }

    private Reading read(long step) {
        long allocated = threads.getTotalThreadAllocatedBytes();
        long perStep = (allocated - heapBytesAt) / Math.max(1, step - stepAt);
        awaitCompiler();
        System.gc();
        Reading reading = new Reading(step, residentKib(), perStep, Device.cpu().memory().allocations());
        stepAt = step;
        heapBytesAt = threads.getTotalThreadAllocatedBytes();
        return reading;
    }

    /** Waits until the JVM has not compiled code for so long that its compiler has freed its working memory. */
    private static void awaitCompiler() {
        CompilationMXBean compiler = ManagementFactory.getCompilationMXBean();
        long before;
        do {
            before = compiler.getTotalCompilationTime();
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(QUIET_MS));
        } while (compiler.getTotalCompilationTime() != before);
    }

    private static long residentKib() {
        try {
            return Files.readAllLines(Path.of("/proc/self/status")).stream().filter(l -> l.startsWith("VmRSS:"))
                    .mapToLong(l -> Long.parseLong(l.replaceAll("\\D", ""))).findFirst().orElseThrow();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
