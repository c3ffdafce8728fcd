package dev.starling.nn.chart;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LineChartTest {
    /** The neighbours of a large number are farther from it than the 0.5 that suffices around a small one. */
    @ParameterizedTest
    @ValueSource(doubles = {0, 1, -3, 1e20, -1e300})
    void drawsANumberThatDoesNotChange(double value) {
        String svg = Picture.svg(300, 200, canvas -> new LineChart("title", "x", false)
                .line("line", "#000000", true, new double[] {1, 2}, new double[] {value, value})
                .draw(canvas, 0, 0, 300, 200));
        assertThat(svg).contains("<polyline").doesNotContain("NaN").doesNotContain("Infinity");
    }
}
