# SPDX-License-Identifier: Apache-2.0
"""What schemathesis cannot know of the server: the name of its model. A name that is made up gets a 404, behind which
nothing else of the request is looked at."""
import schemathesis


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict) and isinstance(body.get("model"), str) and 0 < len(body["model"]) <= 256:
        return {**body, "model": "tiny"}
    return body
