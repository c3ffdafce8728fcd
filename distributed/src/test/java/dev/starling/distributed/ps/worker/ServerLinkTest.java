package dev.starling.distributed.ps.worker;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.ps.wire.SessionMessage;
import java.util.Map;
import org.junit.jupiter.api.Test;

class ServerLinkTest {
    private final ServerLink link = new ServerLink(0, 0, new byte[1], () -> 0);

    @Test
    void aBeginIsAnsweredOnce() {
        assertThat(link.isAnswered()).isTrue();
        link.ask(new SessionMessage.Begin(1, Map.of()));
        assertThat(link.isAnswered()).isFalse();
        link.onBegun();
        assertThat(link.isAnswered()).isTrue();
    }

    /** A repeated Begin has two answers, and the second may arrive when the next question is open. */
    @Test
    void anAnswerThatComesLateDoesNotAnswerAGoodbye() {
        link.ask(new SessionMessage.Begin(1, Map.of()));
        link.onBegun();
        link.ask(new SessionMessage.Goodbye());
        link.onBegun();
        assertThat(link.isAnswered()).isFalse();
        link.onFarewell();
        link.pump();
        assertThat(link.isAnswered()).isTrue();
    }
}
