package dev.starling.cuda;

import dev.starling.nn.Layer;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.Networks;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.spi.MemoryUse;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Trains a perceptron for many steps, each on a new batch, and reads memory use ten times. From the second reading on,
 * the device's allocator may make no new requests and lend no more memory, the card's free memory may not shrink, and
 * the process's resident memory may grow by at most 2 %. Linux only.
 *
 * <pre>
 * --device cuda    the device
 * --steps 100000
 * --captured       steps are captured
 * --tiny           200 steps of a small network, for an emulator
 * </pre>
 */
public final class Endurance {
    private static final int READINGS = 10;
    private static final double SLACK = 0.02;

    /** Memory in use; the device's memory both as its allocator and as its driver see it. */
    record Reading(int step, long live, long requests, long free, long residentKib) {
        /** Describes what has grown since this reading, or returns {@code null}. */
        String growthTo(Reading later) {
            if (later.live > live) {
                return "live device memory grew from " + live + " to " + later.live + " bytes";
            }
            if (later.requests > requests) {
                return "the allocator made " + (later.requests - requests) + " further requests of device memory";
            }
            if (later.free < free) {
                return "the card's free memory fell by " + (free - later.free) + " bytes";
            }
            return later.residentKib > residentKib * (1 + SLACK) ? "resident memory grew from " + residentKib + " to "
                    + later.residentKib + " KiB" : null;
        }
    }

    private Endurance() { }

    /** Runs the command; see the class for the arguments. */
    public static void main(String[] arguments) {
        String device = "cuda";
        int steps = 100_000;
        boolean captured = false;
        boolean tiny = false;
        for (int i = 0; i < arguments.length; i++) {
            switch (arguments[i]) {
                case "--device" -> device = arguments[++i];
                case "--steps" -> steps = Integer.parseInt(arguments[++i]);
                case "--captured" -> captured = true;
                case "--tiny" -> tiny = true;
                default -> throw new IllegalArgumentException("unknown option " + arguments[i]);
            }
        }
        System.exit(run(Device.of(device, 0), tiny ? 200 : steps, tiny ? 8 : 1024, captured) ? 0 : 1);
    }

    /** Trains, prints a line for each reading, and returns whether memory use stayed constant. */
    static boolean run(Device device, int steps, int width, boolean captured) {
        List<Reading> readings = train(device, steps, width, captured);
        String growth = readings.get(1).growthTo(readings.getLast());
        System.out.printf("%d passed, %d failed of 1 run over %d steps%s%n", growth == null ? 1 : 0,
                growth == null ? 0 : 1, steps, growth == null ? ": memory use is constant" : ": " + growth);
        return growth == null;
    }

    /** Trains and returns the readings. */
    static List<Reading> train(Device device, int steps, int width, boolean captured) {
        return Device.with(device, () -> steps(device, steps, width, captured));
    }

    private static List<Reading> steps(Device device, int steps, int width, boolean captured) {
        Generator generator = Generator.seeded(1);
        Spec labels = new Spec(DType.I64, Shape.of(16), device);
        List<Reading> readings = new ArrayList<>();
        try (Layer model = Networks.mlp(generator, 784, width, width, 10);
                Optimizer optimizer = Adam.over(model).rate(1e-4).build();
                TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), optimizer, Generator.seeded(2))) {
            if (captured) {
                step.captured();
            }
            long begin = System.nanoTime();
            for (int i = 1; i <= steps; i++) {
                try (Scope batch = Scope.open("batch")) {
                    step.run(generator.uniform(16, 784), generator.integers(labels, 0, 10));
                }
                if (i % (steps / READINGS) == 0) {
                    readings.add(read(device, i));
                    System.out.printf(Locale.ROOT, "%s, %.1f s%n", readings.getLast(),
                            (System.nanoTime() - begin) / 1e9);
                }
            }
        }
        return readings;
    }

    private static Reading read(Device device, int step) {
        System.gc();
        MemoryUse use = device.memory();
        long free = device.backend() instanceof CudaBackend backend ? backend.gpu().freeBytes() : 0;
        try {
            return new Reading(step, use.live(), use.allocations(), free,
                    Files.readAllLines(Path.of("/proc/self/status")).stream().filter(l -> l.startsWith("VmRSS:"))
                            .mapToLong(l -> Long.parseLong(l.replaceAll("\\D", ""))).findFirst().orElseThrow());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
