package dev.starling.samples;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

class CoordinateTest {
    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {"--world 0 | --world must be positive, got 0",
        "--world 2 --silence 0 | --silence must be positive, got 0"})
    void refusesInvalidNumbers(String options, String message) {
        StringWriter errors = new StringWriter();
        int status = new CommandLine(new Coordinate()).setErr(new PrintWriter(errors, true))
                .execute(("--at 127.0.0.1:0 " + options).split(" "));
        assertThat(status).isEqualTo(2);
        assertThat(errors.toString()).contains(message);
    }
}
