package dev.starling.spark.search;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** All trials of a search. */
public final class SearchResult {
    private final SparkSession session;
    private final List<Trial> trials;

    SearchResult(SparkSession session, List<Trial> trials) {
        this.session = session;
        this.trials = trials.stream().sorted(Comparator.comparingInt(Trial::epochs).reversed()
                .thenComparingDouble(Trial::loss).thenComparingInt(Trial::number)).toList();
    }

    /** Returns all trials: those that were trained longest first, of these the one of least loss. */
    public List<Trial> trials() {
        return trials;
    }

    /** Returns the trial of least loss among those that were trained longest. */
    public Trial best() {
        return trials.getFirst();
    }

    /** Returns the trials as a DataFrame. */
    public Dataset<Row> frame() {
        List<Row> rows = new ArrayList<>();
        for (Trial t : trials) {
            rows.add(RowFactory.create(t.number(), t.settings(), t.epochs(), t.loss(), t.metric(), t.seconds(),
                    t.problem()));
        }
        return session.createDataFrame(rows, new StructType().add("trial", DataTypes.IntegerType)
                .add("settings", DataTypes.createMapType(DataTypes.StringType, DataTypes.StringType))
                .add("epochs", DataTypes.IntegerType).add("loss", DataTypes.DoubleType)
                .add("metric", DataTypes.DoubleType).add("seconds", DataTypes.DoubleType)
                .add("problem", DataTypes.StringType));
    }

    /** Returns the trials as a table to print. */
    public String table() {
        StringBuilder text = new StringBuilder(String.format(Locale.ROOT, "%5s  %6s  %9s  %8s  %7s  %s%n", "trial",
                "epochs", "loss", "metric", "seconds", "settings"));
        for (Trial t : trials) {
            text.append(String.format(Locale.ROOT, "%5d  %6d  %9.4f  %8.4f  %7.1f  %s%n", t.number(), t.epochs(),
                    t.loss(), t.metric(), t.seconds(), t.problem() == null ? t.settings() : t.settings() + ": "
                    + t.problem()));
        }
        return text.toString();
    }
}
