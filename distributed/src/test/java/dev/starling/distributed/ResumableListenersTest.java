package dev.starling.distributed;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelFile;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.BestModel;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.EarlyStopping;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.Plateau;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Listeners whose state belongs to the run, on ranks that share batches. */
@Timeout(60)
class ResumableListenersTest {
    private static final String SCORE = "score";
    /** The second epoch is the best, and the first of the two after which the run ends. */
    private static final double[] SCORES = {1, 3, 2, 2, 5};

    @TempDir
    Path directory;

    /** What a rank ends with: weights, those after the second epoch, the number of epochs, and the rate. */
    private record Outcome(Map<String, float[]> weights, Map<String, float[]> best, int epochs, double rate) { }

    private static Map<String, float[]> weights(Sequential model) {
        Map<String, float[]> weights = new HashMap<>();
        model.state().forEach((path, p) -> weights.put(path, p.master().toFloats()));
        return weights;
    }

    private Outcome train(DistributionStrategy strategy, int epochs, boolean checkpoints) {
        Generator g = Generator.seeded(5 + strategy.rank());
        Generator data = Generator.seeded(3);
        int[] epoch = {0};
        Map<String, float[]> best = new HashMap<>();
        try (Scope scope = Scope.open("test");
                Sequential model = Sequential.of(Linear.of(3, 4, g), BatchNorm.of(4), Linear.of(4, 2, g))) {
            TensorDataset rows = TensorDataset.of(data.normal(24, 3), data.integers(0, 2, 24));
            Plateau plateau = Plateau.of(0.1).factor(0.5).patience(0).growing(SCORE);
            Metric score = Metric.of(SCORE, (_, target) -> SCORES[epoch[0]] * target.size(0));
            try (Optimizer sgd = Sgd.over(model).rate(plateau).build();
                    DataLoader train = DataLoader.of(rows).batchSize(8).shuffle().build();
                    DataLoader test = DataLoader.of(rows).batchSize(8).build(); strategy) {
                Trainer.Builder trainer = Trainer.of(model, Loss.crossEntropy(), sgd).data(train).heldOut(test)
                        .epochs(epochs).metrics(score).strategy(strategy).listeners(new TrainingListener() {
                            @Override
                            public void epochStarted(Progress progress) {
                                epoch[0] = progress.epoch() - 1;
                            }

                            @Override
                            public void epochEnded(Progress progress, EpochReport report) {
                                if (report.epoch() == 2) {
                                    best.putAll(weights(model));
                                }
                            }
                        }, EarlyStopping.patience(2).growing(SCORE).restoreBest(model), plateau,
                        BestModel.of(model, directory.resolve("best.safetensors")).growing(SCORE));
                int last = (checkpoints ? trainer.checkpoints(directory).resume() : trainer).build().run().last()
                        .epoch();
                return new Outcome(weights(model), best, last, plateau.rate(0));
            }
        }
    }

    private static void assertBest(List<Outcome> outcomes, Map<String, float[]> best) {
        for (Outcome each : outcomes) {
            assertThat(each.epochs).isEqualTo(4);
            assertThat(each.rate).isEqualTo(0.025);
            best.forEach((path, w) -> assertThat(each.weights.get(path)).as(path).isEqualTo(w));
        }
    }

    @Test
    void ranksOfARingRestoreTheSameWeightsAlsoAfterTheyResume() throws Exception {
        List<Outcome> whole = Cluster.local(2).run(group -> train(RingAllReduce.over(group).build(), 5, false));
        Map<String, float[]> best = whole.getFirst().best;
        assertThat(best).isNotEmpty();
        assertBest(whole, best);
        assertThat(ModelFile.metadata(directory.resolve("best.safetensors")).notes()).containsEntry("epoch", "2");
        Cluster.local(2).run(group -> train(RingAllReduce.over(group).build(), 3, true));
        assertBest(Cluster.local(2).run(group -> train(RingAllReduce.over(group).build(), 5, true)), best);
    }

    @Test
    void synchronousWorkersOfAServerRestoreTheSameWeights() throws Exception {
        List<Outcome> both = Cluster.local(3).servers(1).run(group -> {
            if (group.rank() == 2) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            return train(ParameterServer.worker(group, group.rank()).workers(2).servers(1)
                    .consistency(new Consistency.Synchronous()).build(), 5, false);
        }).stream().filter(Objects::nonNull).toList();
        assertBest(both, both.getFirst().best);
    }
}
