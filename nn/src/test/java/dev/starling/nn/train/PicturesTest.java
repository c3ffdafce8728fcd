package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Model;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataException;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Sequences;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.loss.Objective;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.GradientNorms;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.awt.image.BufferedImage;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.imageio.ImageIO;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What a run and a model are looked at with: learning curve, rate test, norms of gradients, matrix, predictions. */
@Timeout(120)
class PicturesTest {
    private static final int TRAINING = 0x5b8db8;
    private static final int HELD_OUT = 0xd1495b;
    private static final Pattern POLYLINE = Pattern.compile("points=\"([^\"]*)\" fill=\"none\" stroke=\"#5b8db8\"");

    @TempDir
    Path directory;

    private static EpochReport report(int epoch, double loss, double accuracy) {
        Scores scores = new Scores(loss, Map.of("accuracy", accuracy), Map.of("accuracy", "50 %"), 1);
        return new EpochReport(epoch, epoch, scores, Optional.of(new Scores(2 * loss, Map.of("accuracy", accuracy / 2),
                Map.of(), 1)), 1, 1);
    }

    private static int count(BufferedImage image, int colour, int from, int to) {
        int count = 0;
        for (int y = 0; y < image.getHeight(); y++) {
            for (int x = from; x < to; x++) {
                count += (image.getRGB(x, y) & 0xffffff) == colour ? 1 : 0;
            }
        }
        return count;
    }

    // ---- the learning curve ----

    @Test
    void drawsTrainingAndHeldOutDataInAPanelForEachNumber() throws IOException {
        Path file = directory.resolve("new/folder/curve.png");
        LearningCurve curve = LearningCurve.in(file).title("test");
        curve.draw();
        BufferedImage empty = ImageIO.read(file.toFile());
        assertThat(count(empty, TRAINING, 0, empty.getWidth())).isZero();
        for (int epoch = 1; epoch <= 5; epoch++) {
            curve.add(report(epoch, Math.exp(-epoch), 1 - Math.exp(-epoch)));
        }
        curve.draw();
        BufferedImage image = ImageIO.read(file.toFile());
        int middle = image.getWidth() / 2;
        assertThat(image.getWidth()).isEqualTo(2 * empty.getWidth());
        for (int colour : new int[] {TRAINING, HELD_OUT}) {
            assertThat(count(image, colour, 0, middle)).isGreaterThan(200);
            assertThat(count(image, colour, middle, image.getWidth())).isGreaterThan(200);
        }
    }

    /** Labels such as 0.05 fit beside the axis: nothing touches the border of the picture or the panel before. */
    @Test
    void leavesRoomForTheLabelsOfTheAxes() throws IOException {
        for (double loss : new double[] {0.05, 0.000123, 12345, 1}) {
            Path png = directory.resolve("curve.png");
            Path svg = directory.resolve("curve.svg");
            for (Path file : List.of(png, svg)) {
                LearningCurve.in(file).add(report(1, loss, 0.5)).add(report(2, loss / 5, 0.6)).draw();
            }
            BufferedImage image = ImageIO.read(png.toFile());
            for (int panel : new int[] {0, image.getWidth() / 2}) {
                assertThat(count(image, 0xffffff, panel, panel + 6)).as("loss " + loss)
                        .isEqualTo(6 * image.getHeight());
            }
            if (loss == 0.05) {
                assertThat(Files.readString(svg)).contains(">0.02<").contains(">0.10<");
            }
        }
    }

    /** Numbers of this locale have other digits than those of SVG. */
    @Test
    void drawsAlikeInEveryLocale() throws IOException {
        Path file = directory.resolve("curve.svg");
        LearningCurve curve = LearningCurve.in(file).add(report(1, 4, 0.5)).add(report(2, 3, 0.6));
        curve.draw();
        String expected = Files.readString(file);
        Locale before = Locale.getDefault();
        Locale.setDefault(Locale.forLanguageTag("ar-EG-u-nu-arab"));
        try {
            curve.draw();
        } finally {
            Locale.setDefault(before);
        }
        assertThat(file).hasContent(expected);
    }

    /** The places of points: halves of the way between two numbers are halves of the way between their places. */
    @Test
    void putsPointsWhereTheirNumbersAre() throws IOException {
        Path file = directory.resolve("curve.svg");
        LearningCurve curve = LearningCurve.in(file);
        double[] losses = {4, 3, 1, Double.NaN, 0};
        for (int i = 0; i < losses.length; i++) {
            curve.add(report(i + 1, losses[i], 0.5));
        }
        curve.draw();
        Matcher line = POLYLINE.matcher(Files.readString(file));
        assertThat(line.find()).isTrue();
        List<double[]> spots = new ArrayList<>();
        for (String spot : line.group(1).split(" ")) {
            spots.add(new double[] {Double.parseDouble(spot.split(",")[0]), Double.parseDouble(spot.split(",")[1])});
        }
        assertThat(spots).as("NaN is left out").hasSize(4);
        assertThat(spots.get(1)[0] - spots.get(0)[0]).isCloseTo(spots.get(2)[0] - spots.get(1)[0], within(0.11));
        assertThat(spots.get(3)[0] - spots.get(2)[0]).isCloseTo(2 * (spots.get(1)[0] - spots.get(0)[0]), within(0.21));
        double unit = spots.get(1)[1] - spots.get(0)[1];
        assertThat(unit).isPositive();
        assertThat(spots.get(2)[1] - spots.get(1)[1]).isCloseTo(2 * unit, within(0.21));
        assertThat(spots.get(3)[1] - spots.get(2)[1]).isCloseTo(unit, within(0.21));
    }

    @Test
    void reportsAFileThatCannotBeWritten() throws IOException {
        Path file = Files.writeString(directory.resolve("file"), "no directory");
        assertThatThrownBy(() -> LearningCurve.in(file.resolve("curve.png")).draw()).isInstanceOf(DataException.class)
                .hasMessageContaining("curve.png");
        assertThatThrownBy(() -> LearningCurve.in(directory.resolve("curve.gif")).draw())
                .isInstanceOf(DataException.class).hasMessageContaining(".svg or .png");
    }

    /** Until the new picture is written, for which the disk may have no space, the old one stays. */
    @Test
    void replacesAPictureAsAWhole() throws IOException {
        for (String name : List.of("curve.svg", "curve.png")) {
            Path file = directory.resolve(name);
            LearningCurve curve = LearningCurve.in(file).add(report(1, 2, 0.5));
            curve.draw();
            byte[] old = Files.readAllBytes(file);
            Path before = Files.createLink(directory.resolve("before " + name), file);
            curve.add(report(2, 1, 0.6)).draw();
            assertThat(before).hasBinaryContent(old);
            assertThat(Files.readAllBytes(file)).isNotEqualTo(old);
        }
        try (Stream<Path> files = Files.list(directory)) {
            assertThat(files).hasSize(4);
        }
    }

    @Test
    void drawsAConfusionMatrix() throws IOException {
        ConfusionMatrix matrix = ConfusionMatrix.of(2, new double[] {3, 1, 0, 0}).named(List.of("cat", "<dog>"));
        matrix.draw(directory.resolve("matrix.svg"));
        matrix.draw(directory.resolve("matrix.png"));
        assertThat(Files.readString(directory.resolve("matrix.svg"))).contains(">3<").contains(">1<")
                .contains("&lt;dog&gt;").contains("accuracy 75.00 %");
        assertThat(ImageIO.read(directory.resolve("matrix.png").toFile()).getWidth()).isPositive();
        assertThatThrownBy(() -> ConfusionMatrix.of(201, new double[201 * 201]).draw(directory.resolve("m.svg")))
                .isInstanceOf(DataException.class);
    }

    // ---- learning rates ----

    private static Map<String, float[]> state(Sequential model) {
        Map<String, float[]> state = new HashMap<>();
        model.state().forEach((path, p) -> state.put(path, p.master().toFloats()));
        return state;
    }

    @Test
    void findsARateAndLeavesTheModelAsItWas() throws IOException {
        Generator g = Generator.seeded(1);
        Tensor x = g.normal(256, 4);
        Tensor y = x.sum(1).gt(0).to(DType.I64);
        try (Sequential model = Sequential.of(Linear.of(4, 16, g), BatchNorm.of(16), new Relu(), Linear.of(16, 2, g));
                DataLoader data = DataLoader.of(TensorDataset.of(x, y)).batchSize(32).shuffle().build()) {
            Map<String, float[]> before = state(model);
            RateTest test = RateTest.run(model, Loss.crossEntropy(), rates -> Sgd.over(model).rate(rates).build(), data,
                    1e-4, 1e3, 60);
            Map<String, float[]> after = state(model);
            before.forEach((path, w) -> assertThat(after.get(path)).as(path).isEqualTo(w));
            assertThat(test.points()).hasSizeBetween(20, 60);
            assertThat(test.points().get(1).rate() / test.points().get(0).rate()).isCloseTo(Math.pow(1e7, 1.0 / 59),
                    within(1e-9));
            // The loss is flat below 0.01, and training diverges above 100.
            assertThat(test.suggestion()).isBetween(0.01, 30.0);
            test.draw(directory.resolve("rates.svg"));
            assertThat(Files.readString(directory.resolve("rates.svg"))).contains(">1e-4<");
            assertThatThrownBy(() -> RateTest.run(model, Loss.crossEntropy(), rates -> Adam.over(model).build(), data,
                    1, 1, 5)).isInstanceOf(TensorException.class);
        }
    }

    /** The loss falls from about -95 to -100. */
    @Test
    void testsAllRatesIfLossesAreNegative() {
        Tensor x = Generator.seeded(1).normal(64, 1);
        try (Sequential model = Sequential.of(Linear.of(1, 1, Generator.seeded(2)));
                DataLoader data = DataLoader.of(TensorDataset.of(x, x.mul(3))).batchSize(32).build()) {
            Loss negative = (result, target) -> Loss.meanSquared().of(result, target).sub(100);
            RateTest test = RateTest.run(model, negative, rates -> Sgd.over(model).rate(rates).build(), data, 1e-4,
                    0.1, 20);
            assertThat(test.points()).hasSize(20).allMatch(point -> point.loss() < 0);
        }
    }

    private record Input(Tensor x) { }

    private record Output(Tensor y) { }

    private record Line(Linear line) implements Model<Input, Output> {
        @Override
        public Output forward(Input in) {
            return new Output(line.apply(in.x()));
        }
    }

    @Test
    void findsARateForAModelOfSeveralInputs() {
        Tensor x = Generator.seeded(1).normal(64, 1);
        Line model = new Line(Linear.of(1, 1, Generator.seeded(2)));
        float[] before = model.line.weight().master().toFloats();
        try (DataLoader data = DataLoader.of(TensorDataset.of(new Input(x), new Output(x.mul(3)))).batchSize(32)
                .build()) {
            RateTest test = RateTest.run(model, Objective.of("y", Loss.meanSquared()), rates -> Sgd.over(model)
                    .rate(rates).build(), data);
            assertThat(test.suggestion()).isBetween(1e-3, 1.0);
            assertThat(model.line.weight().master().toFloats()).isEqualTo(before);
        }
    }

    /** Gradients 3 and 4 have the norm 5; that of a frozen parameter does not count. */
    @Test
    void measuresTheNormsOfGradients() {
        try (Linear w = Linear.withoutBias(1, 1, Generator.seeded(1)); Linear v = Linear.withoutBias(1, 1,
                Generator.seeded(1)); GradientNorms optimizer = GradientNorms.of(Sgd.over(Sequential.of(w, v)).rate(1)
                .build()); Scope scope = Scope.open("test")) {
            assertThat(optimizer.norm()).isZero();
            w.weight().set(Tensor.full(DType.F32, 3, 1, 1));
            v.weight().set(Tensor.full(DType.F32, 2, 1, 1));
            optimizer.step(Tensor.full(DType.F32, 3, 1, 1), Tensor.full(DType.F32, 4, 1, 1));
            assertThat(optimizer.norm()).isCloseTo(5, within(1e-6));
            assertThat(optimizer.norms()).containsExactlyInAnyOrderEntriesOf(Map.of("0.weight", 3.0, "1.weight", 4.0));
            assertThat(w.weight().master().item()).isZero();
            v.freeze(path -> true);
            optimizer.step(Tensor.full(DType.F32, -2, 1, 1), Tensor.full(DType.F32, 4, 1, 1));
            assertThat(optimizer.norms()).containsEntry("0.weight", 2.0).containsEntry("1.weight", 0.0);
        }
    }

    // ---- predictions ----

    @Test
    void predictsAllRowsInOrder() {
        Generator g = Generator.seeded(1);
        Tensor x = g.normal(10, 3);
        try (Scope scope = Scope.open("test"); Sequential model = Sequential.of(Linear.of(3, 4, g), BatchNorm.of(4));
                DataLoader data = DataLoader.of(TensorDataset.of(x, Tensor.zeros(10))).batchSize(4).build()) {
            float[] expected = model.forward(x).toFloats();
            assertThat(Predictions.of(model, x).toFloats()).isEqualTo(expected);
            Tensor all = Predictions.of(model, data);
            assertThat(all.shape().dims()).containsExactly(10, 4);
            assertThat(all.toFloats()).containsExactly(expected, within(1e-6f));
        }
    }

    /** A batch of sequences is as long as its longest. */
    @Test
    void refusesToJoinResultsOfDifferentLengths() {
        Sequences texts = Sequences.of("tokens", List.of(new long[] {1, 2}, new long[] {3}));
        try (DataLoader data = DataLoader.of(texts).batchSize(1).build()) {
            assertThatThrownBy(() -> Predictions.of(x -> x, data)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("lengths(..)");
        }
    }
}
