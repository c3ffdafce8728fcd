package dev.starling.spark.command;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.Scores;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

class TrainCommandTest {
    private static final Scores SCORES = new Scores(0.5, Map.of(), Map.of(), 10);

    @Test
    void describesTheLastEpoch() {
        assertThat(TrainCommand.summary(List.of(new EpochReport(1, 5, SCORES, Optional.empty(), 1, 10)), 2))
                .isEqualTo("loss 0.5000  1 epoch in 2.0 s");
        assertThat(TrainCommand.summary(List.of(new EpochReport(1, 5, SCORES, Optional.empty(), 1, 10),
                new EpochReport(2, 10, SCORES, Optional.of(SCORES), 1, 10)), 3.21))
                .isEqualTo("loss 0.5000  held out: loss 0.5000  2 epochs in 3.2 s");
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "--pretraining 2 --optimizer sgd | --optimizer sgd does not apply to --pretraining, which needs adam",
        "--pretraining-rate 0.1 | --pretraining-rate applies to --pretraining N"})
    void refusesOptionsThatDoNotApply(String options, String message) {
        StringWriter errors = new StringWriter();
        int code = new CommandLine(new TrainCommand()).setErr(new PrintWriter(errors, true))
                .execute(options.split(" "));
        assertThat(code).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(errors.toString()).contains(message);
    }

    @Test
    void describesARunThatResumedAfterItsLastEpoch() {
        assertThat(TrainCommand.summary(List.of(), 1)).contains("nothing was left to train");
    }
}
