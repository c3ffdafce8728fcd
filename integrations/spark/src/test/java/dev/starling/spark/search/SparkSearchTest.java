package dev.starling.spark.search;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.train.Metric;
import dev.starling.spark.Perceptron;
import dev.starling.spark.SharedSession;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;

/** Trials as independent tasks. */
@Timeout(240)
@ExtendWith(SharedSession.class)
class SparkSearchTest {
    private static SearchResult search() {
        return SparkSearch.of(ModelDescription.of(Perceptron.class, Map.of()), Loss::crossEntropy)
                .over("sizes", "2,8,2", "2,32,2", "3,2").over(SparkSearch.RATE, "0.000001", "0.03").epochs(4).halving(2)
                .metric(Metric::accuracy).seed(5).run(SharedSession.points(200, 400), List.of("point"), "label");
    }

    @Test
    void shouldFindTheSameBestSettingsFromTheSameSeed() {
        SearchResult result = search();
        // Six for an epoch, three for two, one for four.
        assertThat(result.trials()).hasSize(10);
        assertThat(result.best().settings()).containsEntry(SparkSearch.RATE, "0.03");
        assertThat(result.best().epochs()).isEqualTo(4);
        assertThat(result.trials()).anySatisfy(t -> assertThat(String.valueOf(t.problem())).contains("last size of x"));
        assertThat(result.frame().where("problem is null").count()).isEqualTo(10 - result.trials().stream()
                .filter(t -> t.problem() != null).count());
        assertThat(result.table()).contains("settings", "{sizes=2,32,2, rate=0.03}");
        assertThat(search().trials().stream().map(t -> t.number() + " " + t.loss())).isEqualTo(result.trials().stream()
                .map(t -> t.number() + " " + t.loss()).toList());
    }
}
