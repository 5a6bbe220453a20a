"""Platform of a cluster: the components of components/, each after those that it declares to need.

Settings are in Pulumi.<stack>.yaml; how each part is installed is in components/.
"""

from components.stack import export_outputs, install_components, open_stack

with open_stack() as stack:
    export_outputs(stack, install_components(stack))
