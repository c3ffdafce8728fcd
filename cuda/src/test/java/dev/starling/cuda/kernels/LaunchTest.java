package dev.starling.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.compile.KernelSource;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.QueuedGpu;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LaunchTest {
    @TempDir
    private Path folder;
    private final QueuedGpu gpu = new QueuedGpu(1 << 20);

    private record Named(String name) implements Kernel {
        @Override
        public KernelSource source() {
            return new KernelSource(name, name, "text of " + name);
        }
    }

    private Launch launch(String kernel) {
        return new Launcher(gpu, new KernelCompiler(gpu.compiler(), "sm_90", folder)).launch(new Named(kernel));
    }

    @Test
    void laysArgumentsOutAsAStruct() {
        launch("packed").i32(1).i64(2).f32(3).i32(4).f32(5).f64(6).threads(1);
        ByteBuffer bytes = ByteBuffer.wrap(gpu.launches().getFirst().arguments()).order(ByteOrder.LITTLE_ENDIAN);
        assertThat(bytes.limit()).isEqualTo(40);
        assertThat(bytes.getInt(0)).isEqualTo(1);
        assertThat(bytes.getLong(8)).isEqualTo(2);
        assertThat(bytes.getFloat(16)).isEqualTo(3);
        assertThat(bytes.getInt(20)).isEqualTo(4);
        assertThat(bytes.getFloat(24)).isEqualTo(5);
        assertThat(bytes.getDouble(32)).isEqualTo(6);
    }

    @Test
    void coversAllThreadsWithAGrid() {
        launch("one").threads(1);
        launch("more").threads(257);
        launch("blocks").blocks(5, 64);
        launch("none").threads(0);
        assertThat(gpu.launches()).extracting(l -> l.grid()).containsExactly(new Gpu.Grid(1, 1, 1, 256),
                new Gpu.Grid(2, 1, 1, 256), new Gpu.Grid(5, 1, 1, 64));
    }

    @Test
    void refusesTooManyArguments() {
        Launch launch = launch("wide");
        for (int i = 0; i < 512; i++) {
            launch.i64(i);
        }
        assertThatThrownBy(() -> launch.i64(512)).isInstanceOf(IllegalStateException.class);
    }
}
