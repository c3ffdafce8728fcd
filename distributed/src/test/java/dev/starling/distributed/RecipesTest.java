package dev.starling.distributed;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.Layers;
import dev.starling.nn.Model;
import dev.starling.nn.Module;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.Table;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.data.WeightedDataset;
import dev.starling.nn.image.ImageFolder;
import dev.starling.nn.image.Transforms;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Embedding;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.MaxPool2d;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.loss.Objective;
import dev.starling.nn.model.Networks;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.preprocess.TableEncoder;
import dev.starling.nn.train.BestModel;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.EarlyStopping;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.History;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.Scores;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.Trainer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.awt.Color;
import java.awt.Graphics2D;
import java.awt.image.BufferedImage;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import javax.imageio.ImageIO;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The models of the recipes train eagerly, captured, and by two processes with the same losses. */
@Timeout(60)
class RecipesTest {
    private static final int ROWS = 90;

    @TempDir
    private Path folder;

    /** One run of a recipe, and what it has to close. */
    private record Run(Path folder, DistributionStrategy strategy, Generator random, Deque<AutoCloseable> opened)
            implements AutoCloseable {
        <T extends AutoCloseable> T own(T resource) {
            opened.push(resource);
            return resource;
        }

        DataLoader data(Dataset set) {
            return own(DataLoader.of(set).batchSize(16).seed(3).shuffle().build());
        }

        DataLoader test(Dataset set) {
            return own(DataLoader.of(set).batchSize(50).build());
        }

        Optimizer adam(Module model) {
            return own(Adam.over(model).rate(0.01).build());
        }

        @Override
        public void close() throws Exception {
            for (AutoCloseable each : opened) {
                each.close();
            }
        }
    }

    /** The programs in {@code examples/recipes}, with smaller networks and data. */
    private enum Recipe {
        HOUSES {
            @Override
            Trainer.Builder of(Run run) {
                Table table = houses();
                TableEncoder encoder = TableEncoder.builder().numbers("area", "age").categories("town", 5)
                        .target("price").build().adapt(table);
                Sequential model = run.own(Sequential.of(encoder, Linear.of(encoder.width(), 16, run.random),
                        new Relu(), Linear.of(16, 1, run.random), encoder.output()));
                double[] weights = new double[ROWS];
                Arrays.setAll(weights, i -> 1 + i % 3);
                return Trainer.of(model, Loss.meanSquared(), run.adam(model))
                        .data(run.data(WeightedDataset.of(encoder.dataset(table), weights, 100)))
                        .heldOut(run.test(encoder.dataset(table))).listeners(EarlyStopping.patience(2)
                                .restoreBest(model), BestModel.of(model, run.folder.resolve("houses.safetensors")));
            }
        },
        SHAPES {
            @Override
            Trainer.Builder of(Run run) throws IOException {
                List<ImageFolder> parts = ImageFolder.of(shapes(run.folder.resolve("shapes")), 12, 12)
                        .split(7, 0.7, 0.3);
                Sequential model = run.own(Sequential.of(Conv2d.of(3, 6, 3).build(run.random), new Relu(),
                        MaxPool2d.of(2), new Flatten(), Linear.of(6 * 5 * 5, 2, run.random)));
                return Trainer.of(model, Loss.crossEntropy(), run.adam(model)).data(run.data(parts.get(0)
                                .transforms(Transforms.randomResizedCrop(12, 12, 0.7, 1), Transforms.randomFlip(),
                                        Transforms.colorJitter(0.3, 0.3, 0.3))))
                        .heldOut(run.test(parts.get(1))).metrics(Metric.accuracy());
            }
        },
        SEVERAL_INPUTS {
            @Override
            Trainer.Builder of(Run run) {
                House model = run.own(House.of(run.random));
                TensorDataset data = numberedHouses();
                Objective objective = Objective.of("price", Loss.meanSquared()).and("kind", Loss.crossEntropy(), 0.5);
                return Trainer.of(model, objective, run.adam(model)).data(run.data(data)).heldOut(run.test(data))
                        .metrics(Metric.meanAbsoluteError().on("price"), Metric.accuracy().on("kind"));
            }
        },
        FINE_TUNE {
            @Override
            Trainer.Builder of(Run run) {
                Path file = run.folder.resolve("pretrained" + run.strategy.rank() + ".safetensors");
                try (Sequential before = Networks.mlp(Generator.seeded(9), 2, 16, 16, 2)) {
                    before.save(file);
                }
                Sequential pretrained = run.own(Networks.mlp(run.random, 2, 16, 16, 2));
                pretrained.load(file);
                Sequential model = Layers.replace(pretrained, "4", run.own(Linear.of(16, 3, run.random)));
                model.freeze(path -> path.startsWith("0."));
                Optimizer adam = run.own(Adam.over(model).rate(0.05).rate(path -> path.startsWith("2."), 0.01)
                        .build());
                TensorDataset data = points();
                return Trainer.of(model, Loss.crossEntropy(), adam).data(run.data(data)).heldOut(run.test(data))
                        .metrics(Metric.accuracy());
            }
        };

        abstract Trainer.Builder of(Run run) throws IOException;
    }

    private record Row(double area, @Nullable Double age, @Nullable String town, double price) { }

    /** Returns prices of houses, some of which have no age or town. */
    private static Table houses() {
        Random random = new Random(1);
        return Table.of(Row.class, IntStream.range(0, ROWS).mapToObj(i -> {
            double area = 1 + random.nextDouble();
            int town = random.nextInt(3);
            return new Row(area, i % 9 == 0 ? null : 30 * random.nextDouble(), i % 7 == 0 ? null : "town " + town,
                    area * (1 + town));
        }).toList());
    }

    /** Draws discs and squares, unless another rank has drawn them. */
    private static Path shapes(Path root) throws IOException {
        synchronized (RecipesTest.class) {
            Random random = new Random(1);
            for (int i = 0; i < 60; i++) {
                Path file = root.resolve(i % 2 == 0 ? "disc" : "square").resolve(i + ".png");
                BufferedImage image = new BufferedImage(16, 16, BufferedImage.TYPE_INT_RGB);
                Graphics2D pen = image.createGraphics();
                pen.setColor(Color.getHSBColor(random.nextFloat(), 1, 1));
                if (i % 2 == 0) {
                    pen.fillOval(2, 2, 12, 12);
                } else {
                    pen.fillRect(2, 2, 12, 12);
                }
                if (!Files.exists(file)) {
                    Files.createDirectories(file.getParent());
                    ImageIO.write(image, "png", file.toFile());
                }
            }
        }
        return root;
    }

    private record Input(Tensor ids, Tensor numbers) { }

    private record Output(Tensor price, Tensor kind) { }

    private record House(Embedding towns, Linear trunk, Linear price, Linear kind) implements Model<Input, Output> {
        static House of(Generator g) {
            return new House(Embedding.of(5, 3, g), Linear.of(5, 8, g), Linear.of(8, 1, g), Linear.of(8, 3, g));
        }

        @Override
        public Output forward(Input in) {
            Tensor x = trunk.apply(Tensor.concat(1, towns.apply(in.ids()), in.numbers())).tanh();
            return new Output(price.apply(x).squeeze(-1), kind.apply(x));
        }
    }

    private static TensorDataset numberedHouses() {
        Generator g = Generator.seeded(3);
        Tensor ids = g.integers(0, 5, ROWS);
        Tensor numbers = g.normal(ROWS, 2);
        return TensorDataset.of(new Input(ids, numbers), new Output(numbers.sum(1).add(ids.to(DType.F32).mul(0.3)),
                ids.gt(1).to(DType.I64).add(ids.gt(3).to(DType.I64))));
    }

    private static TensorDataset points() {
        Tensor points = Generator.seeded(3).uniform(4 * ROWS, 2).mul(2).sub(1);
        Tensor radius = points.square().sum(1).sqrt();
        return TensorDataset.of(points, radius.gt(0.5).to(DType.I64).add(radius.gt(0.8).to(DType.I64)));
    }

    private History train(Recipe recipe, DistributionStrategy strategy, boolean captured) throws Exception {
        // Ranks start with different weights.
        try (Scope scope = Scope.open("test"); strategy; Run run = new Run(folder, strategy,
                Generator.seeded(5 + strategy.rank()), new ArrayDeque<>())) {
            Trainer.Builder trainer = recipe.of(run).epochs(3).strategy(strategy);
            return (captured ? trainer.captured() : trainer).build().run();
        }
    }

    private static void assertSame(History history, History expected, double tolerance) {
        assertThat(history.epochs()).hasSize(3);
        for (int i = 0; i < 3; i++) {
            EpochReport a = history.epochs().get(i);
            EpochReport b = expected.epochs().get(i);
            assertSame(a.training(), b.training(), tolerance);
            assertSame(a.heldOut().orElseThrow(), b.heldOut().orElseThrow(), tolerance);
        }
    }

    private static void assertSame(Scores a, Scores b, double tolerance) {
        assertThat(a.loss()).isCloseTo(b.loss(), within(tolerance));
        assertThat(a.metrics().keySet()).isEqualTo(b.metrics().keySet());
        b.metrics().forEach((name, value) -> assertThat(a.metric(name)).as(name).isCloseTo(value, within(tolerance)));
    }

    @ParameterizedTest
    @EnumSource
    void hasTheSameLossesEagerlyCapturedAndInARingOfTwo(Recipe recipe) throws Exception {
        History alone = train(recipe, new SingleProcess(), false);
        assertThat(alone.last().training().loss()).isLessThan(0.9 * alone.epochs().getFirst().training().loss());
        assertSame(train(recipe, new SingleProcess(), true), alone, 0);
        for (boolean captured : new boolean[] {false, true}) {
            Cluster.local(2).run(group -> train(recipe, RingAllReduce.over(group).bucketBytes(128).build(), captured))
                    .forEach(each -> assertSame(each, alone, 1e-4));
        }
    }
}
