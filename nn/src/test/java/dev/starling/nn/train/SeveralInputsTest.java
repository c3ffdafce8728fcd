package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.autograd.Gradients;
import dev.starling.autograd.Tape;
import dev.starling.nn.Graph;
import dev.starling.nn.Layer;
import dev.starling.nn.Layers;
import dev.starling.nn.Model;
import dev.starling.nn.Parameter;
import dev.starling.nn.Precision;
import dev.starling.nn.RecordType;
import dev.starling.nn.Summary;
import dev.starling.nn.data.Batch;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Dropout;
import dev.starling.nn.layer.Embedding;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.layer.Tanh;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.loss.Objective;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Models with several inputs, results and losses, given as records. */
@Timeout(120)
class SeveralInputsTest {
    private static final int ROWS = 70;
    private static final int BATCH = 16;
    private static final Objective OBJECTIVE = Objective.of("price", Loss.meanSquared()).and("kind",
            Loss.crossEntropy(), 0.5);

    private record Input(Tensor ids, Tensor numbers) { }

    /** The result {@code hint} has no loss. */
    private record Output(Tensor price, Tensor kind, Tensor hint) { }

    private record Targets(Tensor price, Tensor kind) { }

    private record House(Embedding towns, Linear trunk, Linear price, Linear kind, Dropout dropout)
            implements Model<Input, Output> {
        static House of(long seed) {
            Generator g = Generator.seeded(seed);
            return new House(Embedding.of(5, 3, g), Linear.of(5, 8, g), Linear.of(8, 1, g), Linear.of(8, 3, g),
                    new Dropout(0.1));
        }

        @Override
        public Output forward(Input in) {
            Tensor x = Tensor.concat(1, towns.apply(in.ids()), in.numbers());
            Tensor y = dropout.apply(trunk.apply(x).tanh());
            return new Output(price.apply(y).squeeze(-1), kind.apply(y), y);
        }
    }

    private static TensorDataset houses() {
        Generator g = Generator.seeded(3);
        Tensor ids = g.integers(0, 5, ROWS);
        Tensor numbers = g.normal(ROWS, 2);
        Tensor price = numbers.sum(1).add(ids.to(DType.F32).mul(0.3));
        return TensorDataset.of(new Input(ids, numbers), new Targets(price, ids.remainder(Tensor.full(DType.I64, 3))));
    }

    private record Run(History history, Map<String, float[]> weights) { }

    private static Run train(Consumer<Trainer.Builder> options) {
        return train(House.of(1), BATCH, options);
    }

    private static Run train(House model, int batch, Consumer<Trainer.Builder> options) {
        try (Scope scope = Scope.open("test"); model;
                Optimizer adam = Adam.over(model).rate(0.02).build();
                DataLoader data = DataLoader.of(houses()).batchSize(batch).shuffle().seed(2).build();
                DataLoader test = DataLoader.of(houses()).batchSize(32).build()) {
            Trainer.Builder builder = Trainer.of(model, OBJECTIVE, adam).data(data).heldOut(test).epochs(4).seed(9)
                    .metrics(Metric.accuracy().on("kind"), Metrics.rootMeanSquaredError().on("price"));
            options.accept(builder);
            History history = builder.build().run();
            Map<String, float[]> weights = new LinkedHashMap<>();
            model.state().forEach((path, p) -> weights.put(path, p.value().toFloats()));
            return new Run(history, weights);
        }
    }

    private static void assertSameWeights(Run run, Run expected, float tolerance) {
        assertThat(run.weights.keySet()).isEqualTo(expected.weights.keySet());
        expected.weights.forEach((path, w) -> assertThat(run.weights.get(path)).as(path)
                .containsExactly(w, within(tolerance)));
    }

    private static void assertSameScores(Run run, Run expected, double tolerance) {
        for (int i = 0; i < 4; i++) {
            Scores a = run.history.epochs().get(i).training();
            Scores b = expected.history.epochs().get(i).training();
            assertThat(a.loss()).isCloseTo(b.loss(), within(tolerance));
            assertThat(a.metrics().keySet()).containsExactly("price loss", "kind loss", "kind accuracy",
                    "price RMSE");
            b.metrics().forEach((name, value) -> assertThat(a.metric(name)).as(name).isCloseTo(value,
                    within(tolerance)));
        }
    }

    // ---- what is computed ----

    @Test
    void takesTheStepThatATapeGivesForTheSumOfLosses() {
        try (Scope scope = Scope.open("test"); House model = House.of(1); House byHand = House.of(1);
                Optimizer sgd = Sgd.over(model).rate(1).build();
                TrainingStep step = new TrainingStep(model, Objective.of("price", Loss.meanSquared()).and("kind",
                        Loss.crossEntropy(), 0.5), sgd, Generator.seeded(4))) {
            Generator g = Generator.seeded(5);
            Input in = new Input(g.integers(0, 5, 7), g.normal(7, 2));
            Targets targets = new Targets(g.normal(7), g.integers(0, 3, 7));
            Tensor[] weights = byHand.parameters().values().stream().map(Parameter::value).toArray(Tensor[]::new);
            Tape tape = new Tape().watch(weights);
            Tensor loss = dev.starling.nn.Mode.training(Generator.seeded(4), () -> tape.record(() -> {
                Output out = byHand.forward(in);
                return out.price.sub(targets.price).square().mean().add(Loss.crossEntropy().of(out.kind, targets.kind)
                        .mul(0.5));
            }));
            Gradients gradients = tape.backward(loss);
            assertThat(step.run(in, targets)).isCloseTo(loss.item(), within(1e-6));
            List<Parameter> trained = List.copyOf(model.parameters().values());
            assertThat(model.parameters().keySet()).containsExactly("towns.weight", "trunk.weight", "trunk.bias",
                    "price.weight", "price.bias", "kind.weight", "kind.bias");
            for (int i = 0; i < weights.length; i++) {
                assertThat(trained.get(i).value().toFloats()).containsExactly(weights[i].sub(gradients.of(weights[i]))
                        .toFloats(), within(1e-6f));
            }
        }
    }

    @Test
    void heldOutLossesDoNotDependOnTheBatches() {
        Objective objective = Objective.of("price", Loss.meanSquared()).and("kind", Loss.crossEntropy().ignoring(0),
                0.5);
        try (Scope scope = Scope.open("test"); House model = House.of(1);
                DataLoader whole = DataLoader.of(houses()).batchSize(ROWS).build();
                DataLoader parts = DataLoader.of(houses()).batchSize(3).build()) {
            Scores expected = Scores.evaluate(model, objective, whole);
            Scores scores = Scores.evaluate(model, objective, parts);
            assertThat(scores.metric("kind loss")).isCloseTo(expected.metric("kind loss"), within(1e-6));
            assertThat(scores.metric("price loss")).isCloseTo(expected.metric("price loss"), within(1e-6));
            assertThat(scores.loss()).isCloseTo(expected.loss(), within(1e-6)).isCloseTo(scores.metric("price loss")
                    + 0.5 * scores.metric("kind loss"), within(1e-6));
        }
    }

    private static Model<Input, Output> graph(House house) {
        return Graph.of(Input.class, Output.class, in -> {
            Graph.Node x = in.get("ids").then("towns", house.towns).concat(1, in.get("numbers"))
                    .then("trunk", house.trunk).then("tanh", new Tanh());
            return Map.of("price", x.then("price", house.price).then("squeeze", y -> y.squeeze(-1)), "kind",
                    x.then("kind", house.kind).then("relu", new Relu()), "hint", x);
        });
    }

    @Test
    void aGraphOfSeveralInputsComputesAndTrainsAsTheRecord() {
        try (Scope scope = Scope.open("test"); House one = withoutDropout(1); House other = withoutDropout(1)) {
            Model<Input, Output> model = graph(one);
            Generator g = Generator.seeded(5);
            Input in = new Input(g.integers(0, 5, 7), g.normal(7, 2));
            Targets targets = new Targets(g.normal(7), g.integers(0, 3, 7));
            Output expected = other.forward(in);
            Output out = model.apply(in);
            assertThat(out.price.toFloats()).isEqualTo(expected.price.toFloats());
            assertThat(out.kind.toFloats()).isEqualTo(expected.kind.relu().toFloats());
            assertThat(out.hint.toFloats()).isEqualTo(expected.hint.toFloats());
            assertThat(model.parameters().keySet()).containsExactlyInAnyOrderElementsOf(other.parameters().keySet());
            try (Optimizer first = Sgd.over(model).rate(0.1).build();
                    Optimizer second = Sgd.over(other).rate(0.1).build();
                    TrainingStep graph = new TrainingStep(model, OBJECTIVE, first, g);
                    TrainingStep record = new TrainingStep(other, Objective.of("price", Loss.meanSquared()).and("kind",
                            (logits, kind) -> Loss.crossEntropy().of(logits.relu(), kind), 0.5), second, g)) {
                for (int i = 0; i < 5; i++) {
                    assertThat(graph.run(in, targets)).isCloseTo(record.run(in, targets), within(1e-6));
                }
            }
            other.parameters().forEach((path, p) -> assertThat(model.parameters().get(path).value().toFloats()).as(path)
                    .containsExactly(p.value().toFloats(), within(1e-6f)));
            assertThat(Summary.of(model, in).rows()).extracting(Summary.Row::path).contains("towns", "kind", "relu");
            assertThatThrownBy(() -> model.apply(new Input(in.ids, g.normal(7, 3))))
                    .hasMessageContaining("layer trunk");
            assertThat(Layers.replace(model, "kind", Linear.of(8, 6, g)).apply(in).kind.size(1)).isEqualTo(6);
            assertThat(Layers.replace(other, "kind", Linear.of(8, 6, g)).apply(in).kind.size(1)).isEqualTo(6);
        }
        assertThatThrownBy(() -> Graph.of(Input.class, Targets.class, in -> Map.of("price", in.get("numbers"))))
                .hasMessageContaining("[price], but the results are Targets(price, kind)");
        assertThatThrownBy(() -> Graph.of(Input.class, Targets.class, in -> Map.of("price", in.get("number"))))
                .hasMessageContaining("no component number");
    }

    @Test
    void reportsEachLossAndMetricOfEpochsAndHeldOutData() {
        try (Scope scope = Scope.open("test"); House model = House.of(1);
                DataLoader data = DataLoader.of(houses()).batchSize(32).build()) {
            Metric[] metrics = {Metric.accuracy().on("kind"), Metrics.rootMeanSquaredError().on("price")};
            Scores scores = Scores.evaluate(model, OBJECTIVE, data, metrics);
            assertThat(scores.loss()).isCloseTo(scores.metric("price loss") + 0.5 * scores.metric("kind loss"),
                    within(1e-6));
            assertThat(scores.metric("price RMSE")).isCloseTo(Math.sqrt(scores.metric("price loss")), within(1e-5));
            assertThat(scores.toString()).contains("price loss ").contains("kind loss ").contains("kind accuracy ");
            double hits = 0;
            for (Batch batch : data.epoch(0)) {
                Output out = model.forward(batch.record(Input.class));
                hits += out.kind.argmax(1).eq(batch.tensor("kind")).sum().item();
            }
            assertThat(scores.metric("kind accuracy")).isCloseTo(hits / ROWS, within(1e-9));
            assertThat(ConfusionMatrix.evaluate(model, "kind", data, 3).accuracy()).isCloseTo(hits / ROWS,
                    within(1e-9));
            assertThatThrownBy(() -> ConfusionMatrix.evaluate(model, "type", data, 3)).hasMessageContaining("type");
        }
        Run run = train(b -> { });
        assertThat(run.history.last().heldOut().orElseThrow().metrics()).containsOnlyKeys("price loss", "kind loss",
                "kind accuracy", "price RMSE");
        assertThat(run.history.last().training().loss()).isLessThan(run.history.epochs().getFirst().training().loss());
    }

    @Test
    void weighsRowsByAField() {
        record Weights(Tensor certainty) { }
        record All(Tensor price, Tensor kind, Tensor certainty) { }
        try (Scope scope = Scope.open("test"); House model = House.of(1);
                Optimizer sgd = Sgd.over(model).build()) {
            Generator g = Generator.seeded(5);
            Input in = new Input(g.integers(0, 5, 7), g.normal(7, 2));
            Targets targets = new Targets(g.normal(7), g.integers(0, 3, 7));
            Tensor certainty = g.uniform(7);
            Objective weighted = OBJECTIVE.weighted("price", "certainty");
            Output out = model.forward(in);
            double expected = out.price.sub(targets.price).square().mul(certainty).mean().item();
            double kind = Loss.crossEntropy().of(out.kind, targets.kind).item();
            try (DataLoader data = DataLoader.of(TensorDataset.of(in, targets, new Weights(certainty))).build();
                    DataLoader without = DataLoader.of(TensorDataset.of(in, targets)).build();
                    TrainingStep step = new TrainingStep(new House(model.towns, model.trunk, model.price, model.kind,
                            new Dropout(0)), weighted, sgd, g)) {
                Scores scores = Scores.evaluate(model, weighted, data);
                assertThat(scores.metric("price loss")).isCloseTo(expected, within(1e-6));
                assertThat(scores.metric("kind loss")).isCloseTo(kind, within(1e-6));
                assertThat(step.run(in, new All(targets.price, targets.kind, certainty)))
                        .isCloseTo(expected + 0.5 * kind, within(1e-5));
                assertThatThrownBy(() -> Scores.evaluate(model, weighted, without)).hasMessageContaining("certainty]");
            }
            assertThatThrownBy(() -> OBJECTIVE.weighted("hint", "certainty")).hasMessageContaining("[price, kind]");
        }
    }

    @Test
    void measuresAResultWithoutALoss() {
        record Both(Tensor price, Tensor kind) { }
        try (Scope scope = Scope.open("test"); House model = House.of(1);
                DataLoader data = DataLoader.of(houses()).batchSize(32).build()) {
            Scores scores = Scores.evaluate(model, Objective.of("price", Loss.meanSquared()), data,
                    Metric.accuracy().on("kind"));
            assertThat(scores.metrics()).containsOnlyKeys("kind accuracy");
            for (Batch batch : data.epoch(0)) {
                assertThat(batch.record(Both.class).kind).isSameAs(batch.tensor("kind"));
            }
        }
    }

    // ---- ways to train ----

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"F32", "BF16", "F16"})
    void capturesStepsWithTheSameResults(DType type) {
        Run eager = train(b -> b.precision(Precision.of(type)));
        Run captured = train(b -> b.precision(Precision.of(type)).captured());
        assertSameWeights(captured, eager, 0);
        assertSameScores(captured, eager, 0);
    }

    @Test
    void accumulatesBatches() {
        House large = withoutDropout(1);
        House small = withoutDropout(1);
        Run whole = train(large, 32, b -> { });
        Run parts = train(small, 8, b -> b.accumulate(4));
        assertSameWeights(parts, whole, 1e-4f);
        assertSameScores(parts, whole, 1e-4);
    }

    private static House withoutDropout(long seed) {
        House house = House.of(seed);
        return new House(house.towns, house.trunk, house.price, house.kind, new Dropout(0));
    }

    @Test
    void trainsOnTwoRanksAsOnOne() throws Exception {
        Run single = train(withoutDropout(1), BATCH, b -> { });
        for (boolean captured : new boolean[] {false, true}) {
            TrainingThreads threads = new TrainingThreads(1, 1);
            List<Run> both = threads.run(rank -> () -> train(withoutDropout(1 + rank), BATCH, b -> {
                b.strategy(threads.member(rank));
                if (captured) {
                    b.captured();
                }
            }));
            for (Run each : both) {
                assertSameWeights(each, single, 1e-4f);
                assertSameScores(each, single, 1e-4);
            }
        }
    }

    @Test
    void resumesFromACheckpointBitForBit(@TempDir Path directory) {
        Run whole = train(b -> { });
        train(b -> b.epochs(2).checkpoints(directory));
        Run resumed = train(b -> b.checkpoints(directory).resume());
        assertThat(resumed.history.epochs()).hasSize(2);
        assertSameWeights(resumed, whole, 0);
        assertThat(resumed.history.last().training()).isEqualTo(whole.history.last().training());
    }

    @Test
    void freezesPartsByPath() {
        House model = House.of(1);
        float[] before = model.towns().weight().value().toFloats();
        float[] trunk = model.trunk().weight().value().toFloats();
        model.freeze(path -> path.startsWith("towns."));
        Run run = train(model, BATCH, b -> { });
        assertThat(run.weights.get("towns.weight")).isEqualTo(before);
        assertThat(run.weights.get("trunk.weight")).isNotEqualTo(trunk);
    }

    @Test
    void allocatesNoMemoryInTheSteadyState() {
        try (Scope scope = Scope.open("test"); House model = House.of(1);
                Optimizer adam = Adam.over(model).build();
                TrainingStep step = new TrainingStep(model, OBJECTIVE, adam, Generator.seeded(4))) {
            Generator g = Generator.seeded(5);
            Input in = new Input(g.integers(0, 5, 7), g.normal(7, 2));
            Targets targets = new Targets(g.normal(7), g.integers(0, 3, 7));
            for (int i = 0; i < 20; i++) {
                step.run(in, targets);
            }
            long allocations = Device.cpu().memory().allocations();
            long live = Device.cpu().memory().live();
            for (int i = 0; i < 200; i++) {
                step.run(in, targets);
            }
            assertThat(Device.cpu().memory().allocations()).isEqualTo(allocations);
            // Tensors of other tests may be freed meanwhile.
            assertThat(Device.cpu().memory().live()).isLessThanOrEqualTo(live);
        }
    }

    // ---- what is shown ----

    @Test
    void showsLayersOfTheModel() {
        try (Scope scope = Scope.open("test"); House model = House.of(1)) {
            assertThat(model.tree()).startsWith("House(\n  (towns): Embedding(5, 3)");
            Summary summary = Summary.of(model, new Input(Tensor.full(DType.I64, 0, 4), Tensor.zeros(4, 2)));
            assertThat(summary.rows()).extracting(Summary.Row::path).containsExactly("towns", "trunk", "dropout",
                    "price", "kind");
            assertThat(summary.parameters()).isEqualTo(5 * 3 + 5 * 8 + 8 + 8 + 1 + 24 + 3);
            assertThatThrownBy(() -> model.apply(new Input(Tensor.full(DType.I64, 0, 4), Tensor.zeros(4, 3))))
                    .hasMessageContaining("layer trunk, Linear(5, 8)");
        }
    }

    @Test
    void predictsAllRowsInOrder() {
        try (Scope scope = Scope.open("test"); House model = House.of(1);
                DataLoader data = DataLoader.of(houses()).batchSize(BATCH).build();
                DataLoader all = DataLoader.of(houses()).batchSize(ROWS).build();
                DataLoader other = DataLoader.of(TensorDataset.of(Tensor.zeros(3))).build()) {
            Output expected = model.forward(all.epoch(0).iterator().next().record(Input.class));
            Output predicted = Predictions.records(model, data);
            assertThat(predicted.price().toFloats()).containsExactly(expected.price().toFloats(), within(1e-5f));
            assertThat(predicted.kind().toFloats()).containsExactly(expected.kind().toFloats(), within(1e-5f));
            assertThat(predicted.hint().shape().dims()).containsExactly(ROWS, 8);
            assertThat(scope.owns(predicted.price()) && scope.owns(predicted.hint())).isTrue();
            assertThatThrownBy(() -> Predictions.records(model, other)).hasMessageContaining("[ids, numbers]");
        }
    }

    // ---- mistakes ----

    private static void assertRefused(Dataset data, Objective objective, String... parts) {
        assertRefused(data, objective, new Metric[0], parts);
    }

    private static void assertRefused(Dataset data, Objective objective, Metric[] metrics, String... parts) {
        try (House model = House.of(1); Optimizer sgd = Sgd.over(model).build();
                DataLoader loader = DataLoader.of(data).build()) {
            for (String part : parts) {
                assertThatThrownBy(() -> Trainer.of(model, objective, sgd).data(loader).metrics(metrics).build())
                        .hasMessageContaining(part);
            }
        }
    }

    @Test
    void refusesDataWithoutTheFieldsOfTheModel() {
        try (Scope scope = Scope.open("test")) {
            Tensor ids = Tensor.full(DType.I64, 0, 4);
            Tensor numbers = Tensor.zeros(4, 2);
            assertRefused(TensorDataset.of(new Input(ids, numbers)), OBJECTIVE, "House",
                    "[ids, numbers, price, kind]", "[ids, numbers];");
            assertRefused(TensorDataset.of(ids, numbers), OBJECTIVE, "one without a name", "Dataset.named");
            assertRefused(TensorDataset.of(ids, numbers, numbers).named("ids", "number", "price"),
                    Objective.of("price", Loss.meanSquared()), "[ids, numbers, price]", "[ids, number, price]");
            assertThatThrownBy(() -> TensorDataset.of(ids, numbers).named("ids")).hasMessageContaining("2 fields");
            assertThatThrownBy(() -> TensorDataset.of(new Input(ids, numbers), new Input(ids, numbers)))
                    .hasMessageContaining("different names");
        }
    }

    @Test
    void refusesLossesAndMetricsOfUnknownResults() {
        try (Scope scope = Scope.open("test")) {
            assertRefused(houses(), Objective.of("cost", Loss.meanSquared()), "no component cost",
                    "[price, kind, hint]");
            assertRefused(houses(), OBJECTIVE, new Metric[] {Metric.accuracy()}, "accuracy may measure any",
                    "on(\"price\")");
            assertRefused(houses(), OBJECTIVE, new Metric[] {Metric.accuracy().on("type")}, "no component type");
            assertRefused(houses(), OBJECTIVE, new Metric[] {Metric.accuracy().on("hint")}, "takes the fields",
                    "hint]");
            assertThatThrownBy(() -> OBJECTIVE.and("kind", Loss.crossEntropy())).hasMessageContaining("Loss.plus");
            assertThatThrownBy(() -> Trainer.of(Linear.of(2, 2, Generator.seeded(1)), Loss.meanSquared(), null)
                    .metrics(Metric.accuracy().on("kind")).task()).hasMessageContaining("leave out on(\"kind\")");
        }
    }

    @Test
    void refusesOtherArgumentsOfAStep() {
        try (Scope scope = Scope.open("test"); House model = House.of(1); Optimizer sgd = Sgd.over(model).build();
                TrainingStep step = new TrainingStep(model, OBJECTIVE, sgd, Generator.seeded(4));
                Linear line = Linear.of(2, 1, Generator.seeded(1)); Optimizer other = Sgd.over(line).build();
                TrainingStep single = new TrainingStep(line, Loss.meanSquared(), other, Generator.seeded(4))) {
            Input in = new Input(Tensor.full(DType.I64, 0, 4), Tensor.full(DType.F32, Double.NaN, 4, 2));
            Targets targets = new Targets(Tensor.zeros(4), Tensor.full(DType.I64, 0, 4));
            assertThatThrownBy(() -> step.run(in.ids, in.numbers)).hasMessageContaining("pass a record");
            assertThatThrownBy(() -> step.run(in, in)).hasMessageContaining("no component price");
            assertThatThrownBy(() -> single.run(in, targets)).hasMessageContaining("takes one tensor");
            assertThatThrownBy(() -> step.run(in, targets)).hasMessageContaining("the input numbers has an element")
                    .hasMessageContaining("(price NaN, kind NaN)");
        }
    }

    private record Half(Tensor x, String y) { }

    private record Sum<I extends Record>(Linear layer) implements Model<I, Output> {
        @Override
        public Output forward(I input) {
            throw new AssertionError("not called");
        }
    }

    @Test
    void refusesRecordsThatAreNotOfTensors() {
        assertThatThrownBy(() -> RecordType.of(Half.class)).hasMessageContaining("Half.y is a String");
        assertThatThrownBy(() -> RecordType.of(new Targets(null, null)).tensors(new Targets(null, null)))
                .hasMessageContaining("Targets.price is null");
        assertThatThrownBy(() -> new Sum<Input>(null).inputs()).hasMessageContaining("override inputs()");
        assertThat(new Sum<Input>(null).outputs()).hasToString("Output(price, kind, hint)");
        assertThat(new Sum<Input>(null).state()).isEmpty();
        Model<Input, Output> subclass = new Named();
        assertThat(subclass.inputs().names()).containsExactly("ids", "numbers");
    }

    /** Declares its types in a class above it, in another order. */
    private abstract static class Swapped<R extends Record, A extends Record> implements Model<A, R> { }

    private static final class Named extends Swapped<Output, Input> {
        @Override
        public Output forward(Input input) {
            throw new AssertionError("not called");
        }
    }

    @Test
    void visitsTheLayersOfARecordOnly() {
        record Tower(Layer stem, Parameter scale, int size) implements Layer {
            @Override
            public Tensor forward(Tensor x) {
                return stem.apply(x).mul(scale.value());
            }
        }
        try (Tower tower = new Tower(Linear.of(2, 2, Generator.seeded(1)), Parameter.filled(2, 2), 3)) {
            assertThat(tower.state().keySet()).containsExactly("stem.weight", "stem.bias", "scale");
        }
    }

    @Test
    void anotherProcessObservesEachLoss() {
        int[] steps = {0};
        train(b -> {
            List<Metric> metrics = b.task().metrics();
            Progress[] there = {null};
            RemoteRun remote = new RemoteRun(4, metrics, List.of(new TrainingListener() {
                @Override
                public void stepEnded(Progress progress) {
                    there[0] = progress;
                }
            }));
            b.listeners(new TrainingListener() {
                @Override
                public void stepEnded(Progress progress) {
                    remote.stepEnded(RemoteRun.numbers(progress));
                    assertThat(there[0].loss()).isEqualTo(progress.loss());
                    assertThat(there[0].meanLoss()).isCloseTo(progress.meanLoss(), within(1e-12));
                    for (int i = 0; i < metrics.size(); i++) {
                        assertThat(there[0].metric(i)).isEqualTo(progress.metric(i));
                        assertThat(there[0].meanMetric(i)).isCloseTo(progress.meanMetric(i), within(1e-12));
                    }
                    steps[0]++;
                }
            });
        });
        assertThat(steps[0]).isEqualTo(20);
    }

    private record Yes(Tensor price, Tensor hint) { }

    @Test
    void aStepRefusesWrongTargetsOfOneOfSeveralLosses() {
        for (boolean captured : new boolean[] {false, true}) {
            try (Scope scope = Scope.open("test"); House model = withoutDropout(1);
                    Optimizer sgd = Sgd.over(model).rate(0.1).build();
                    TrainingStep step = new TrainingStep(model, Objective.of("price", Loss.meanSquared()).and("hint",
                            Loss.binaryCrossEntropy()), sgd, Generator.seeded(4))) {
                if (captured) {
                    step.captured();
                }
                Input in = new Input(Tensor.full(DType.I64, 0, 4), Tensor.ones(4, 2));
                Yes right = new Yes(Tensor.zeros(4), Tensor.ones(4, 8));
                for (int i = 0; i < 100; i++) {
                    step.run(in, right);
                }
                float[] before = model.trunk.weight().value().toFloats();
                // The loss of the price is positive and outweighs the other one.
                Yes wrong = new Yes(Tensor.full(DType.F32, 50, 4), Tensor.full(DType.F32, 9, 4, 8));
                assertThatThrownBy(() -> step.run(in, wrong))
                        .hasMessageContaining("the targets of hint must lie between 0 and 1");
                assertThat(model.trunk.weight().value().toFloats()).isEqualTo(before);
            }
        }
    }
}
