"""schemathesis throws what the OpenAPI document allows, and what it does not, at a gateway: nothing is ever a 500."""

import pytest
import schemathesis
from gateway_fakes import PASSAGES, fake_policy, fake_retriever
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from upstream_process import Endless

pytestmark = pytest.mark.load
EXAMPLES = 60


def test_no_request_is_a_500(start_live, tmp_path):
    gateway = start_live(fake_policy(Endless()), fake_retriever(PASSAGES), store_path=tmp_path / "s.db", max_in_flight=64)
    schema = schemathesis.openapi.from_url(f"{gateway.url}/openapi.json")
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        modes = [operation.as_strategy(generation_mode=mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)]

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=st.one_of(modes))
        def throw(case):
            nonlocal tried
            response = case.call(timeout=30)
            tried += 1
            assert response.status_code < 500 or response.status_code in {503, 504}, response.text

        throw()
    assert tried > EXAMPLES * 5
