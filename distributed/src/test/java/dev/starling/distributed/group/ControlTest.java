package dev.starling.distributed.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.Member;
import dev.starling.distributed.Role;
import dev.starling.distributed.View;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;

class ControlTest {
    /** Such a view has no rank for the receiver, so it must not begin an epoch. */
    @Test
    void refusesAViewWithoutItsReceiver() throws IOException {
        View view = new View(3, List.of(new Member(7, 0, 0, "a:1", "host", new Role.Worker())));
        byte[] encoded = Control.CODEC.encode(new Control.NewView(7, view, Control.Rules.UNKNOWN, 2));
        assertThat(Control.CODEC.decode(encoded)).isEqualTo(new Control.NewView(7, view, Control.Rules.UNKNOWN, 2));

        // The last byte of the receiver's id, which follows the kind of the message.
        encoded[Long.BYTES] = 8;
        assertThatThrownBy(() -> Control.CODEC.decode(encoded)).isInstanceOf(IOException.class)
                .hasMessageContaining("without its receiver, member 8");
    }
}
