package dev.starling.spark.command;

import dev.starling.spark.Output;
import dev.starling.spark.TrainedModel;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** Adds a model's columns to a DataFrame. */
@Command(name = "predict", mixinStandardHelpOptions = true, description = "Add columns that a model computes.")
final class PredictCommand implements Callable<Integer> {
    private static final int SHOWN = 10;

    @Mixin
    private SessionOptions session;

    @Option(names = "--model", paramLabel = "URI", required = true, description = "What train --save wrote.")
    private String model;

    @Option(names = "--class", paramLabel = "COLUMN", defaultValue = "prediction",
            description = "Column of the class, or of the value (default: ${DEFAULT-VALUE}).")
    private String classColumn;

    @Option(names = "--probability", paramLabel = "COLUMN", description = "Column of the probabilities.")
    private String probability;

    @Option(names = "--values", paramLabel = "COLUMN", description = "Column of the model's numbers.")
    private String values;

    @Option(names = "--save", paramLabel = "URI", description = "Where to write the rows as Parquet "
            + "(default: print the first).")
    private String save;

    @Override
    public Integer call() throws Exception {
        try (SparkSession spark = session.open()) {
            TrainedModel trained = TrainedModel.load(model, spark.sparkContext().hadoopConfiguration());
            List<Output> outputs = new ArrayList<>(List.of(trained.isClassifier() ? Output.ofClass(classColumn)
                    : Output.ofValues(classColumn)));
            if (probability != null) {
                outputs.add(Output.ofProbability(probability));
            }
            if (values != null) {
                outputs.add(Output.ofValues(values));
            }
            Dataset<Row> scored = trained.transform(session.read(spark), outputs.toArray(Output[]::new));
            if (save != null) {
                scored.write().parquet(save);
            } else {
                scored.show(SHOWN, false);
            }
            return 0;
        }
    }
}
