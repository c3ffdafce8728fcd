package dev.starling.nn.energy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.History;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Trains two machines for two epochs each and then a classifier, and checks which of them each epoch trains. */
class GreedyTrainingTest {
    private static final int EPOCHS = 2;

    @TempDir
    Path dir;

    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private record Model(DeepBeliefNetwork network, GreedyTraining greedy) {
        static Model of(int epochs) {
            Generator g = Generator.seeded(5);
            DeepBeliefNetwork network = DeepBeliefNetwork.of(VisibleUnits.BERNOULLI, g, 8, 6, 4);
            return new Model(network, GreedyTraining.of(network, network.classifier(2, 0.1, g), 1, epochs));
        }

        List<double[]> weights() {
            return greedy.parameters().values().stream().map(p -> p.master().toDoubles()).toList();
        }
    }

    /** Returns rows of eight bits whose first bit is their class. */
    private static DataLoader data() {
        Generator g = Generator.seeded(6);
        Tensor rows = g.bernoulli(0.5, 200, 8).to(DType.F32);
        return DataLoader.of(TensorDataset.of(rows, rows.narrow(1, 0, 1).reshape(200).to(DType.I64))).batchSize(20)
                .shuffle().build();
    }

    private static Trainer.Builder trainer(Model model, DataLoader data, int epochs) {
        return Trainer.of(model.greedy, model.greedy.loss(),
                        Adam.over(model.greedy).rate(0.02).betas(0.9, 0.95).build())
                .metrics(model.greedy.metric()).listeners(model.greedy).data(data).epochs(epochs);
    }

    @Test
    void trainsOneMachineAfterTheOtherThenTheClassifier() {
        Model model = Model.of(EPOCHS);
        assertThat(model.greedy.pretrainingEpochs()).isEqualTo(4);
        List<String> changed = new ArrayList<>();
        TrainingListener changes = new TrainingListener() {
            private List<double[]> before = model.weights();

            @Override
            public void epochEnded(Progress progress, EpochReport report) {
                List<String> paths = List.copyOf(model.greedy.parameters().keySet());
                List<double[]> after = model.weights();
                StringBuilder names = new StringBuilder();
                for (int i = 0; i < after.size(); i++) {
                    names.append(Arrays.equals(before.get(i), after.get(i)) ? "" : paths.get(i) + " ");
                }
                changed.add(names.toString().trim());
                before = after;
            }
        };
        try (DataLoader data = data()) {
            History history = trainer(model, data, 24).heldOut(data).listeners(changes).build().run();
            String first = "network.machine0.weight network.machine0.visible_bias network.machine0.hidden_bias";
            String second = first.replace("machine0", "machine1");
            assertThat(changed.subList(0, 5)).containsExactly(first, first, second, second, "network.machine0.weight "
                    + "network.machine0.hidden_bias network.machine1.weight network.machine1.hidden_bias "
                    + "classifier.6.weight classifier.6.bias");
            assertThat(history.epochs().stream().limit(5)
                    .map(e -> e.heldOut().orElseThrow().metrics().keySet().toString()))
                    .containsExactly("[machine 1 reconstruction error]", "[machine 1 reconstruction error]",
                            "[machine 2 reconstruction error]", "[machine 2 reconstruction error]", "[accuracy]");
            assertThat(history.last().heldOut().orElseThrow().metric("accuracy")).isGreaterThan(0.95);
        }
    }

    @Test
    void resumesFromACheckpointBitForBit() {
        Model whole = Model.of(EPOCHS);
        Model interrupted = Model.of(EPOCHS);
        Model resumed = Model.of(EPOCHS);
        TrainingListener stopping = new TrainingListener() {
            @Override
            public void stepEnded(Progress progress) {
                if (progress.step() == 25) {
                    progress.stop();
                }
            }
        };
        try (DataLoader data = data()) {
            trainer(whole, data, 6).build().run();
            trainer(interrupted, data, 6).checkpoints(dir).listeners(stopping).build().run();
            assertThat(trainer(resumed, data, 6).checkpoints(dir).resume().build().run().epochs()).hasSize(4);
        }
        assertThat(resumed.weights()).usingRecursiveComparison().isEqualTo(whole.weights());
    }

    @Test
    void startsEachStageAtTheStartOfItsSchedule() {
        Schedule rates = Model.of(EPOCHS).greedy.schedule(step -> step, step -> 100 + step, 10);
        assertThat(List.of(rates.rate(0), rates.rate(19), rates.rate(20), rates.rate(39), rates.rate(40),
                rates.rate(55))).containsExactly(0.0, 19.0, 0.0, 19.0, 100.0, 115.0);
        assertThat(Model.of(0).greedy.schedule(step -> step, step -> 100 + step, 10).rate(3)).isEqualTo(103);
    }

    @Test
    void refusesANegativeNumberOfEpochs() {
        assertThatThrownBy(() -> Model.of(-1)).isInstanceOf(TensorException.class).hasMessageContaining("got -1");
    }
}
