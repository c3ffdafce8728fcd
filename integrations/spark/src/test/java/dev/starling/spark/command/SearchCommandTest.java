package dev.starling.spark.command;

import static org.assertj.core.api.Assertions.assertThat;

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
}
