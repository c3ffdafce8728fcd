package dev.starling.cuda;

import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.CifarFile;
import dev.starling.nn.data.IdxFile;
import dev.starling.nn.data.LabelledImages;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Dropout;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.MaxPool2d;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.AdamW;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.SplittableRandom;

/**
 * Trains convolutional networks from the same start, on the same batches, on the CPU and on another device, and
 * compares their losses step by step. Rounding differs, and training makes differences grow: each of the first ten
 * losses must agree to within 1 %, and the mean of each ten to within 5 %, of the loss at the start.
 *
 * <pre>
 * --device cuda    what is compared with the CPU
 * --data DIR       holds mnist/ and cifar10/; drawn patterns where it does not
 * --steps 30
 * --tiny           four steps of a small network, for an emulator
 * </pre>
 */
public final class Parity {
    private static final int WINDOW = 10;
    private static final double EACH = 0.01;
    private static final double MEAN = 0.05;
    private static final int CLASSES = 10;

    private final Device device;
    private final Path data;
    private final int steps;
    private final int batch;
    private final long[] widths;

    private Parity(Device device, Path data, int steps, boolean tiny) {
        this.device = device;
        this.data = data;
        this.steps = tiny ? 4 : steps;
        batch = tiny ? 4 : 16;
        widths = tiny ? new long[] {4, 4} : new long[] {16, 32};
    }

    /** Runs; see the class for the arguments. */
    public static void main(String[] arguments) {
        String device = "cuda";
        Path data = null;
        int steps = 30;
        boolean tiny = false;
        for (int i = 0; i < arguments.length; i++) {
            switch (arguments[i]) {
                case "--device" -> device = arguments[++i];
                case "--data" -> data = Path.of(arguments[++i]);
                case "--steps" -> steps = Integer.parseInt(arguments[++i]);
                case "--tiny" -> tiny = true;
                default -> throw new IllegalArgumentException("there is no option " + arguments[i]);
            }
        }
        System.exit(run(Device.of(device, 0), data, steps, tiny) ? 0 : 1);
    }

    /** Compares all, prints what comes of it, and returns whether all agree. */
    static boolean run(Device device, Path data, int steps, boolean tiny) {
        Parity parity = new Parity(device, data, steps, tiny);
        int failed = 0;
        List<LabelledImages> sets = List.of(parity.mnist(), parity.cifar10());
        for (LabelledImages images : sets) {
            String name = images.channels() == 1 ? "mnist" : "cifar10";
            failed += parity.compare(name, images) ? 0 : 1;
        }
        System.out.printf("%d passed, %d failed of %d curves%n", sets.size() - failed, failed, sets.size());
        return failed == 0;
    }

    private LabelledImages mnist() {
        Path images = file("mnist", "train-images-idx3-ubyte.gz");
        Path labels = file("mnist", "train-labels-idx1-ubyte.gz");
        return images == null || labels == null ? drawn(1, 28) : IdxFile.readImages(images, labels, CLASSES);
    }

    private LabelledImages cifar10() {
        Path first = file("cifar10", "data_batch_1.bin");
        return first == null ? drawn(3, 32) : CifarFile.read(List.of(first), CifarFile.OFFICIAL_RECORDS);
    }

    private Path file(String set, String name) {
        Path file = data == null ? null : data.resolve(set).resolve(name);
        return file != null && Files.isRegularFile(file) ? file : null;
    }

    /** Noise, brighter in one part of the image than in others, by class. */
    private LabelledImages drawn(int channels, int side) {
        int count = batch * steps;
        byte[] pixels = new byte[count * channels * side * side];
        byte[] labels = new byte[count];
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < count; i++) {
            labels[i] = (byte) random.nextInt(CLASSES);
            for (int p = 0; p < channels * side * side; p++) {
                int bright = p % (side * side) * CLASSES / (side * side) == labels[i] ? 80 : 0;
                pixels[i * channels * side * side + p] = (byte) (random.nextInt(160) + bright);
            }
        }
        return new LabelledImages(channels, side, side, CLASSES, pixels, labels);
    }

    private boolean compare(String name, LabelledImages images) {
        double[] expected = curve(Device.cpu(), images);
        double[] actual = curve(device, images);
        String difference = difference(expected, actual);
        System.out.printf(Locale.ROOT, "%s: loss %.4f to %.4f on the CPU, to %.4f on %s; %s%n", name, expected[0],
                expected[steps - 1], actual[steps - 1], device, difference == null ? "same curve" : difference);
        return difference == null;
    }

    /** Returns where two curves differ too much, or {@code null}. */
    static String difference(double[] expected, double[] actual) {
        double scale = expected[0];
        for (int i = 0; i < Math.min(WINDOW, expected.length); i++) {
            if (!(Math.abs(expected[i] - actual[i]) <= EACH * scale)) {
                return "step " + i + ": " + expected[i] + " and " + actual[i];
            }
        }
        for (int i = 0; i + WINDOW <= expected.length; i += WINDOW) {
            double a = Arrays.stream(expected, i, i + WINDOW).average().orElseThrow();
            double b = Arrays.stream(actual, i, i + WINDOW).average().orElseThrow();
            if (!(Math.abs(a - b) <= MEAN * scale)) {
                return "mean from step " + i + ": " + a + " and " + b;
            }
        }
        return null;
    }

    private double[] curve(Device on, LabelledImages images) {
        double[] losses = new double[steps];
        try (Layer model = network(images).to(on);
                Optimizer optimizer = AdamW.over(model).rate(1e-3).build();
                TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), optimizer, Generator.seeded(2))) {
            for (int i = 0; i < steps; i++) {
                try (Scope scope = Scope.open("batch")) {
                    losses[i] = step.run(input(images, i), target(images, i));
                }
            }
        }
        return losses;
    }

    /** Made on the CPU, so that it starts the same everywhere. */
    private Layer network(LabelledImages images) {
        Generator generator = Generator.seeded(1);
        List<Layer> layers = new ArrayList<>();
        long in = images.channels();
        for (long width : widths) {
            layers.add(Conv2d.of(in, width, 3).padding(1).withoutBias().build(generator));
            layers.add(BatchNorm.of(width));
            layers.add(new Relu());
            layers.add(MaxPool2d.of(2));
            in = width;
        }
        long rest = images.height() >> widths.length;
        layers.addAll(List.of(new Flatten(), Linear.of(in * rest * rest, 128, generator), new Relu(),
                new Dropout(0.25), Linear.of(128, CLASSES, generator)));
        return Sequential.of(layers);
    }

    private Tensor input(LabelledImages images, int step) {
        int size = images.imageSize();
        float[] pixels = new float[batch * size];
        for (int i = 0; i < pixels.length; i++) {
            long at = ((long) step * batch * size + i) % images.pixels().length;
            pixels[i] = (images.pixels()[(int) at] & 255) / 128f - 1;
        }
        return Tensor.of(pixels, batch, images.channels(), images.height(), images.width());
    }

    private Tensor target(LabelledImages images, int step) {
        long[] labels = new long[batch];
        for (int i = 0; i < batch; i++) {
            labels[i] = images.label((step * batch + i) % images.count());
        }
        return Tensor.of(labels, batch);
    }
}
