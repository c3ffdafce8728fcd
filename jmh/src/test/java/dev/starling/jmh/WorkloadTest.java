package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.jmh.Workload.Convolution;
import dev.starling.jmh.Workload.Format;
import java.util.List;
import org.junit.jupiter.api.Test;

class WorkloadTest {
    @Test
    void hasNamesThatDiffer() {
        assertThat(Workload.ALL).extracting(Workload::name).doesNotHaveDuplicates();
    }

    @Test
    void hasTheConvolutionsOfResNet50() {
        List<Convolution> all = Workload.ALL.stream().filter(Convolution.class::isInstance)
                .map(Convolution.class::cast).filter(c -> c.format() == Format.BF16).toList();
        assertThat(all).hasSize(23);
        // The sizes in table 1 of He et al., 2016.
        assertThat(all.getFirst().outputSize()).isEqualTo(112);
        assertThat(all.getLast().outputSize()).isEqualTo(7);
        assertThat(all.getLast().outputs()).isEqualTo(512);
        // 118,013,952 multiplications and additions for each image, forward and for both gradients.
        assertThat(all.getFirst().work()).isEqualTo(3 * 2 * 118_013_952.0 * 16);
    }
}
