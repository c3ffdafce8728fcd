package dev.starling.spark.command;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.search.Search;
import dev.starling.nn.search.SearchResult;
import dev.starling.nn.search.Trial;
import dev.starling.spark.Perceptron;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

class SearchCommandTest {
    @ParameterizedTest
    @CsvSource({"--halving=-3,'the factor must be above 1, got -3'", "--halving=1,'the factor must be above 1, got 1'",
        "--random=0,'combinations must be positive, got 0'", "--epochs=0,'epochs must be positive, got 0'"})
    void refusesNumbersOutOfRangeBeforeItOpensASession(String option, String message) {
        StringBuilder errors = new StringBuilder();
        int code = new CommandLine(new SearchCommand()).setExecutionExceptionHandler((e, line, result) -> {
            errors.append(e.getMessage());
            return 1;
        }).execute(option);
        assertThat(code).isEqualTo(1);
        assertThat(errors.toString()).contains(message);
    }

    @Test
    void failsIfAllTrialsFailed() {
        SearchResult result = Search.of(ModelDescription.of(Perceptron.class, Map.of()), Loss::crossEntropy)
                .over("sizes", "3,2", "4,2").run(null, "", (plans, ended) -> plans.forEach(p -> ended.accept(new Trial(
                        p.number(), p.settings(), 1, Double.POSITIVE_INFINITY, Double.NaN, 1, "x has 2 columns"))));
        StringWriter out = new StringWriter();
        StringWriter errors = new StringWriter();
        SearchCommand command = new SearchCommand();
        new CommandLine(command).setOut(new PrintWriter(out, true)).setErr(new PrintWriter(errors, true));
        assertThat(command.print(result)).isEqualTo(1);
        assertThat(errors.toString()).contains("all 2 trials failed, trial 0 because: x has 2 columns");
        assertThat(out.toString()).contains("{sizes=4,2}").doesNotContain("best:");
    }
}
