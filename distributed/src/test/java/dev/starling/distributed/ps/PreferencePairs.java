package dev.starling.distributed.ps;

import dev.starling.distributed.ps.wire.Plan;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.Example;
import dev.starling.nn.data.Field;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.History;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.Trainer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.Random;
import java.util.function.Consumer;
import java.util.function.Function;

/** Pairs of a user and an item, whose ids are far apart. The label is 1 if their hidden tastes are equal. */
record PreferencePairs(int size, int users, int items, int seed) implements Dataset {
    /** The first id of items. */
    static final long ITEMS = 1L << 40;
    private static final int TASTES = 4;

    @Override
    public List<Field> fields() {
        return List.of(Field.of(DType.I64, 2), Field.of(DType.I64));
    }

    @Override
    public void write(int index, Example target) {
        Random random = new Random(31L * seed + index);
        int user = random.nextInt(users);
        int item = random.nextInt(items);
        target.segment(0).set(ValueLayout.JAVA_LONG, target.offset(0), user);
        target.segment(0).set(ValueLayout.JAVA_LONG, target.offset(0) + Long.BYTES, item + ITEMS);
        target.put(1, taste(user) == taste(item + ITEMS) ? 1 : 0);
    }

    private static int taste(long id) {
        return Math.floorMod(Plan.mix(id * 77), TASTES);
    }

    /** Looks up user and item in separate calls, and classifies their products: {@code [B, 2]} to {@code [B, 2]}. */
    record Model(Layer rows, Function<Tensor, Tensor> toIds, Linear classifier) implements Layer {
        static Model of(Layer rows, int width, Function<Tensor, Tensor> toIds) {
            return new Model(rows, toIds, Linear.of(width, 2, Generator.seeded(8)));
        }

        @Override
        public Tensor forward(Tensor pairs) {
            Tensor user = rows.forward(toIds.apply(pairs.narrow(1, 0, 1)));
            Tensor item = rows.forward(toIds.apply(pairs));
            return classifier.forward(user.mul(item.narrow(1, 1, 1)).sum(1));
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.layer("rows", rows);
            visitor.layer("classifier", classifier);
        }
    }

    /** Returns the history of the run, and the weights and biases of the classifier. */
    static Outcome train(PreferencePairs data, Model model, Function<Layer, Optimizer> optimizer, int epochs,
            DistributionStrategy strategy, Consumer<Trainer.Builder> more) {
        try (model; Optimizer trained = optimizer.apply(model);
                DataLoader batches = DataLoader.of(data).batchSize(32).seed(3).shuffle().build();
                DataLoader test = DataLoader.of(new PreferencePairs(1000, data.users, data.items, data.seed + 1))
                        .batchSize(100)
                        .build(); strategy) {
            Trainer.Builder builder = Trainer.of(model, Loss.crossEntropy(), trained).data(batches).heldOut(test)
                    .epochs(epochs).seed(9).metrics(Metric.accuracy()).strategy(strategy);
            more.accept(builder);
            return new Outcome(builder.build().run(), model.classifier.state().values().stream()
                    .map(Parameter::value).map(Tensor::toFloats).toList());
        }
    }

    record Outcome(History history, List<float[]> classifier) { }
}
