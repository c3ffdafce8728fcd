package dev.starling.spark.ml;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.spark.ChildDriver;
import dev.starling.spark.Perceptron;
import dev.starling.spark.SharedSession;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.ml.Pipeline;
import org.apache.spark.ml.PipelineModel;
import org.apache.spark.ml.PipelineStage;
import org.apache.spark.ml.evaluation.MulticlassClassificationEvaluator;
import org.apache.spark.ml.feature.VectorAssembler;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.ml.tuning.CrossValidator;
import org.apache.spark.ml.tuning.CrossValidatorModel;
import org.apache.spark.ml.tuning.ParamGridBuilder;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** Starling as a stage of Spark ML's pipelines. */
@Timeout(240)
@ExtendWith(SharedSession.class)
class PipelineTest {
    private static StarlingEstimator estimator() {
        return new StarlingEstimator().setModel(Perceptron.class.getName(), Map.of("sizes", "2,16,2")).setEpochs(4)
                .setBatchSize(16).setRate(0.02).setProbabilityCol("probability");
    }

    private static Pipeline pipeline(StarlingEstimator starling) {
        return new Pipeline().setStages(new PipelineStage[] {new VectorAssembler()
                .setInputCols(new String[] {"x", "y"}).setOutputCol("features"), starling});
    }

    @Test
    void givesEqualColumnsInAnotherJvm(@TempDir Path directory) throws Exception {
        String points = directory.resolve("points").toUri().toString();
        SharedSession.points(200, 800).drop("point").write().parquet(points);
        Dataset<Row> rows = SharedSession.get().read().parquet(points);
        String saved = directory.resolve("pipeline").toUri().toString();
        pipeline(estimator().setPredictionCol("risk.class").setProbabilityCol("risk.p")).write().save(saved);
        PipelineModel model = Pipeline.load(saved).fit(rows);
        String trained = directory.resolve("model").toUri().toString();
        model.write().save(trained);
        Path log = directory.resolve("fresh.log");
        Process fresh = ChildDriver.start(log, FreshJvm.class.getName(), trained, points,
                directory.resolve("scored").toUri().toString());
        List<Row> before = model.transform(rows).orderBy("id").collectAsList();
        assertThat(before.stream().mapToDouble(r -> r.<Integer>getAs("label") == r.<Double>getAs("risk.class")
                .intValue() ? 1 : 0).average().orElse(0)).isGreaterThan(0.9);
        assertThat(fresh.waitFor(120, TimeUnit.SECONDS)).isTrue();
        assertThat(fresh.exitValue()).as(Files.readString(log)).isZero();
        assertThat(SharedSession.get().read().parquet(directory.resolve("scored").toUri().toString()).orderBy("id")
                .collectAsList()).isEqualTo(before);
    }

    @Test
    @Tag("stress")
    void isTunedByCrossValidation() {
        StarlingEstimator starling = estimator().setFeaturesCol("point").setEpochs(3);
        ParamMap[] grid = new ParamGridBuilder().addGrid(starling.rate(),
                scala.jdk.javaapi.CollectionConverters.asScala(List.<Object>of(1e-6, 0.05))).build();
        CrossValidatorModel found = new CrossValidator().setEstimator(starling).setNumFolds(2)
                .setEstimatorParamMaps(grid).setEvaluator(new MulticlassClassificationEvaluator()
                .setMetricName("accuracy")).fit(SharedSession.points(100, 200));
        assertThat(found.avgMetrics()[1]).isGreaterThan(0.8).isGreaterThan(found.avgMetrics()[0]);
        assertThat(found.bestModel().transform(SharedSession.points(10, 40)).where("prediction = label").count())
                .isGreaterThan(30);
    }

    @Test
    void namesAColumnThatIsMissing() {
        assertThatThrownBy(() -> estimator().setFeaturesCol("pixels").fit(SharedSession.points(10, 40)))
                .hasMessageContaining("there is no column \"pixels\"");
        assertThatThrownBy(() -> new StarlingEstimator().setFeaturesCol("point").fit(SharedSession.points(10, 40)))
                .isInstanceOf(IllegalArgumentException.class).hasMessageContaining("setModel(...)");
        assertThatThrownBy(() -> estimator().setFeaturesCol("point").setShape(3, 3).fit(SharedSession.points(10, 40)))
                .hasMessageContaining("the input shape [3, 3] has 9 numbers");
        assertThatThrownBy(() -> estimator().setFeaturesCol("point").setPredictionCol("height").transformSchema(
                SharedSession.points(10, 40).schema())).hasMessageContaining("there is a column \"height\" already");
        assertThatThrownBy(() -> pipeline(estimator()).transformSchema(SharedSession.points(10, 40).drop("label")
                .schema())).hasMessageContaining("there is no column \"label\"");
    }
}
