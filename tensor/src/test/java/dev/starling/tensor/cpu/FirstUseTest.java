package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThatCode;

import org.junit.jupiter.api.Test;

class FirstUseTest {
    @Test
    void everythingThatItLoadsWorks() {
        assertThatCode(FirstUse::run).doesNotThrowAnyException();
    }
}
