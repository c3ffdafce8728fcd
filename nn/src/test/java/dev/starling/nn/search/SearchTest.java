package dev.starling.nn.search;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.Layer;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.model.ModelFactory;
import dev.starling.nn.model.Networks;
import dev.starling.nn.train.Metric;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Searches in this process. */
@Timeout(60)
class SearchTest {
    /** A network with one hidden layer. */
    public static final class Hidden implements ModelFactory {
        @Override
        public Layer create(Map<String, String> settings, Generator generator) {
            return Networks.mlp(generator, 2, Long.parseLong(settings.get("width")), 2);
        }
    }

    private static Search search() {
        return Search.of(ModelDescription.of(Hidden.class, Map.of()), Loss::crossEntropy)
                .over("width", "4", "16", "many").over(Search.RATE, "0.000001", "0.03").over(Search.OPTIMIZER, "adam")
                .epochs(4).halving(2).metric(Metric::accuracy).seed(5);
    }

    private static TensorDataset points(int from, int count) {
        float[] x = new float[2 * count];
        long[] y = new long[count];
        for (int i = 0; i < count; i++) {
            x[2 * i] = (from + i) * 37 % 101 / 100f;
            x[2 * i + 1] = (from + i) * 53 % 97 / 96f;
            y[i] = x[2 * i] + x[2 * i + 1] > 1 ? 1 : 0;
        }
        return TensorDataset.of(Tensor.of(x, count, 2), Tensor.of(y, count));
    }

    private static List<String> losses(SearchResult result) {
        return result.trials().stream().map(t -> t.number() + " " + t.epochs() + " " + t.loss()).toList();
    }

    @Test
    void stopsWorseTrialsEarlyAndMakesNoTrialTwice(@TempDir Path directory) {
        try (Scope scope = Scope.open("test")) {
            TensorDataset train = points(0, 300);
            TensorDataset heldOut = points(300, 100);
            List<Trial> heard = new ArrayList<>();
            SearchResult result = search().keep(TrialStore.of(directory)).listener(heard::add).run(train, heldOut, 3);
            assertThat(result.trials().stream().map(Trial::epochs)).containsExactly(4, 2, 2, 2, 1, 1, 1, 1, 1, 1);
            assertThat(heard).containsExactlyInAnyOrderElementsOf(result.trials());
            assertThat(result.best().settings()).containsEntry("rate", "0.03").doesNotContainEntry("width", "many");
            assertThat(result.best().metric()).isGreaterThan(0.85);
            assertThat(result.trials().stream().filter(t -> t.problem() != null)).hasSize(2)
                    .allMatch(t -> t.problem().contains("many") && t.loss() == Double.POSITIVE_INFINITY);
            assertThat(losses(search().run(train, heldOut, 1))).as("one at a time").isEqualTo(losses(result));
            SearchResult again = search().keep(TrialStore.of(directory)).run(train, heldOut, 2);
            assertThat(again.computed()).isZero();
            assertThat(again.trials()).isEqualTo(result.trials());
            assertThat(search().keep(TrialStore.of(directory)).run(train, points(300, 99), 2).computed())
                    .as("trials with other examples").isEqualTo(10);
            assertThat(search().random(3).halving(5).run(train, heldOut, 2).trials()).hasSize(3);
        }
    }

    @Test
    void refusesWhatIsNoSearch() {
        assertThatThrownBy(() -> search().over("rate")).isInstanceOf(TensorException.class)
                .hasMessageContaining("the setting rate needs values");
        assertThatThrownBy(() -> search().halving(1)).hasMessageContaining("the factor must be above 1, got 1");
        assertThatThrownBy(() -> search().run(points(0, 2), points(0, 2), 0)).hasMessageContaining("got 0");
    }
}
