package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.Metric;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Training in real executor processes. */
@Timeout(120)
class SparkTrainerTest {
    static SparkTrainer trainer() {
        return SparkTrainer.of(ModelDescription.of(Perceptron.class, Map.of("sizes", "2,16,2")), Loss::crossEntropy,
                (model, steps) -> Adam.over(model).rate(0.02).build()).inputs("point").classes("label").epochs(4)
                .batchSize(16).seed(3).metrics(Metric::accuracy);
    }

    static Stream<Strategy> strategies() {
        return Stream.of(Strategy.ring(), Strategy.gossip(2));
    }

    @ParameterizedTest
    @MethodSource("strategies")
    void shouldLearnFromPartitionsOfUnequalSize(Strategy strategy) {
        TrainedModel trained = trainer().strategy(strategy).fit(SharedSession.points(100, 800));
        EpochReport last = trained.epochs().getLast();
        System.err.println(strategy + " " + last);
        assertThat(last.training().metric("accuracy")).isGreaterThan(0.9);
        assertThat(last.training().examples()).isEqualTo(strategy.isSynchronous() ? 800 : 100);
    }
}
