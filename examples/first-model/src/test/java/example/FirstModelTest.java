package example;

import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class FirstModelTest {
    @Test
    void learnsTheCircle() {
        FirstModel first = new FirstModel();
        first.train();
        assertTrue(first.accuracy() > 0.97, "accuracy on unseen points: " + first.accuracy());
    }
}
