package dev.starling.cuda;

import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
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
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;

/**
 * Trains the networks of the samples mnist and cifar10 from the same initial weights on the same batches, on the CPU
 * and on another device, and compares their losses step by step. Roundings differ, and training amplifies differences:
 * each of the first ten losses must agree to within 1 %, and the mean of each ten to within 5 %, of the initial loss;
 * for captured steps in bf16, whose operands have 8 bits, the means to within 10 %.
 *
 * <pre>
 * --device cuda     the device to compare with the CPU
 * --data DIR        folder of mnist/ and cifar10/; generated patterns if it lacks them
 * --steps 200
 * --pictures DIR    folder for pictures of the curves, one for each network
 * --tiny            four steps of a small network, for an emulator
 * </pre>
 */
public final class Parity {
    private static final int WINDOW = 10;
    private static final double EACH = 0.01;
    private static final double MEAN = 0.05;
    private static final double MEAN_HALF = 0.1;
    private static final int CLASSES = 10;
    private static final String PIXELS = "train-images-idx3-ubyte.gz";
    private static final String BATCH = "data_batch_1.bin";

    private final Device device;
    private final Path data;
    private final Path pictures;
    private final int steps;
    private final int batch;
    private final boolean tiny;

    private Parity(Device device, Path data, Path pictures, int steps, boolean tiny) {
        this.device = device;
        this.data = data;
        this.pictures = pictures;
        this.steps = tiny ? 4 : steps;
        batch = tiny ? 4 : 64;
        this.tiny = tiny;
    }

    /** Runs the command; see the class for the arguments. */
    public static void main(String[] arguments) {
        String device = "cuda";
        Path data = null;
        Path pictures = null;
        int steps = 200;
        boolean tiny = false;
        for (int i = 0; i < arguments.length; i++) {
            switch (arguments[i]) {
                case "--device" -> device = arguments[++i];
                case "--data" -> data = Path.of(arguments[++i]);
                case "--pictures" -> pictures = Path.of(arguments[++i]);
                case "--steps" -> steps = Integer.parseInt(arguments[++i]);
                case "--tiny" -> tiny = true;
                default -> throw new IllegalArgumentException("unknown option " + arguments[i]);
            }
        }
        System.exit(new Parity(Device.of(device, 0), data, pictures, steps, tiny).run() ? 0 : 1);
    }

    /** Compares small networks, prints the results, and returns whether all agree. */
    static boolean runTiny(Device device, Path pictures) {
        return new Parity(device, null, pictures, 4, true).run();
    }

    private boolean run() {
        int failed = 0;
        List<LabelledImages> sets = List.of(mnist(), cifar10());
        for (LabelledImages images : sets) {
            failed += compare(images) ? 0 : 1;
        }
        System.out.printf("%d passed, %d failed of %d curves%n", sets.size() - failed, failed, sets.size());
        return failed == 0;
    }

    private LabelledImages mnist() {
        Path images = file("mnist", PIXELS);
        Path labels = file("mnist", "train-labels-idx1-ubyte.gz");
        return images == null || labels == null ? generated(1, 28) : IdxFile.readImages(images, labels, CLASSES);
    }

    private LabelledImages cifar10() {
        Path first = file("cifar10", BATCH);
        return first == null ? generated(3, 32) : CifarFile.read(List.of(first), CifarFile.OFFICIAL_RECORDS);
    }

    private Path file(String set, String name) {
        Path file = data == null ? null : data.resolve(set).resolve(name);
        return file != null && Files.isRegularFile(file) ? file : null;
    }

    /** Returns noise that is brighter in one part of the image, which depends on the class. */
    private LabelledImages generated(int channels, int side) {
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

    private boolean compare(LabelledImages images) {
        boolean grey = images.channels() == 1;
        String name = (grey ? "mnist" : "cifar10")
                + (file(grey ? "mnist" : "cifar10", grey ? PIXELS : BATCH) == null ? ", generated" : "");
        double[] expected = curve(Device.cpu(), images, DType.F32);
        double[] actual = curve(device, images, DType.F32);
        double[] half = curve(device, images, DType.BF16);
        String difference = difference(expected, actual);
        if (difference == null) {
            difference = difference(expected, half, Double.POSITIVE_INFINITY, MEAN_HALF);
            difference = difference == null ? null : "bf16, " + difference;
        }
        System.out.printf(Locale.ROOT, "%s: loss %.4f, after %d steps %.4f on the CPU, %.4f on %s, %.4f in bf16; %s%n",
                name, expected[0], steps, last(expected), last(actual), device, last(half),
                difference == null ? "same curve" : difference);
        if (pictures != null) {
            Map<String, double[]> curves = new LinkedHashMap<>();
            curves.put("cpu f32", expected);
            curves.put(device + " f32", actual);
            curves.put(device + " bf16, captured", half);
            CurvePicture.draw(name + ": loss by step", curves,
                    pictures.resolve("curves-" + name.split(",")[0] + ".png"));
        }
        return difference == null;
    }

    /** Returns the mean of the last values of a curve. */
    private static double last(double[] curve) {
        return Arrays.stream(curve, Math.max(0, curve.length - WINDOW), curve.length).average().orElseThrow();
    }

    /** Describes where two curves differ too much, or returns {@code null}. */
    static String difference(double[] expected, double[] actual) {
        return difference(expected, actual, EACH, MEAN);
    }

    private static String difference(double[] expected, double[] actual, double each, double mean) {
        double scale = expected[0];
        for (int i = 0; i < Math.min(WINDOW, expected.length); i++) {
            if (!(Math.abs(expected[i] - actual[i]) <= each * scale)) {
                return "step " + i + ": " + expected[i] + " and " + actual[i];
            }
        }
        for (int i = 0; i + WINDOW <= expected.length; i += WINDOW) {
            double a = Arrays.stream(expected, i, i + WINDOW).average().orElseThrow();
            double b = Arrays.stream(actual, i, i + WINDOW).average().orElseThrow();
            if (!(Math.abs(a - b) <= mean * scale)) {
                return "mean from step " + i + ": " + a + " and " + b;
            }
        }
        return null;
    }

    /** Returns the loss before each step; 16-bit steps are captured. */
    private double[] curve(Device on, LabelledImages images, DType type) {
        double[] losses = new double[steps];
        try (Layer model = network(images).to(on);
                Optimizer optimizer = AdamW.over(model).rate(1e-3).build();
                TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), optimizer, Generator.seeded(2))) {
            if (type != DType.F32) {
                step.precision(Precision.of(type)).captured();
            }
            for (int i = 0; i < steps; i++) {
                try (Scope scope = Scope.open("batch")) {
                    losses[i] = step.run(input(images, i), target(images, i));
                }
            }
        }
        return losses;
    }

    /** Returns the network, made on the CPU so that its initial weights are the same everywhere. */
    private Layer network(LabelledImages images) {
        Generator generator = Generator.seeded(1);
        List<Layer> layers = new ArrayList<>();
        boolean grey = images.channels() == 1;
        long[] widths = tiny ? new long[] {4, 4} : grey ? new long[] {32, 64} : new long[] {32, 64, 128};
        long in = images.channels();
        for (long width : widths) {
            for (int i = 0; i < (tiny ? 1 : 2); i++) {
                layers.add(Conv2d.of(in, width, 3).padding(1).withoutBias().build(generator));
                layers.add(BatchNorm.of(width));
                layers.add(new Relu());
                in = width;
            }
            layers.add(MaxPool2d.of(2));
        }
        long rest = images.height() >> widths.length;
        long dense = tiny ? 16 : grey ? 128 : 256;
        layers.addAll(List.of(new Flatten(), Linear.of(in * rest * rest, dense, generator), new Relu(),
                new Dropout(0.25), Linear.of(dense, CLASSES, generator)));
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
